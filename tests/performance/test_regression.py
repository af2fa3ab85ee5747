"""What a performance run must not have lost since an earlier one: pytest --baseline RUN."""

import pytest

pytestmark = pytest.mark.performance


def test_metric(performance_change):
    """Speed and latency lost no more than --max-regression or the noise."""
    performance_change.is_no_regression()
