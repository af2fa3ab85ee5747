"""Performance must not have regressed since an earlier run: pytest --baseline RUN."""

import pytest

pytestmark = pytest.mark.performance


def test_metric(performance_change):
    """No metric got worse by more than --max-regression or the noise."""
    performance_change.is_no_regression()
