"""A task's score must not have regressed since an earlier run: pytest -m evals --baseline RUN."""

import pytest

pytestmark = pytest.mark.evals


def test_evals(evals_change):
    """The score lost no more than --max-regression or the noise."""
    evals_change.is_no_regression()
