"""The MMLU score must not have regressed since an earlier run: pytest -m mmlu --baseline RUN."""

import pytest

pytestmark = pytest.mark.mmlu


def test_mmlu(mmlu_change):
    """The MMLU score lost no more than --max-regression or the noise."""
    mmlu_change.is_no_regression()
