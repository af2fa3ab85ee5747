"""What an accuracy run must not have lost since an earlier one: pytest --baseline RUN."""

import pytest

pytestmark = pytest.mark.accuracy


def test_score(score_change):
    """Each score lost no more than --max-regression or the noise."""
    score_change.is_no_regression()
