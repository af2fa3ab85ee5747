"""The accuracy must not have regressed since an earlier run: pytest --baseline RUN."""

import pytest

pytestmark = pytest.mark.accuracy


def test_score(score_change):
    """No score lost more than --max-regression or the noise."""
    score_change.is_no_regression()
