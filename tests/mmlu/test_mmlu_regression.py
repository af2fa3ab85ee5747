"""What an MMLU run must not have lost since an earlier one: pytest -m mmlu --baseline RUN."""

import pytest

pytestmark = pytest.mark.mmlu


def test_score(mmlu_regression_verdict, expect):
    expect(mmlu_regression_verdict)
