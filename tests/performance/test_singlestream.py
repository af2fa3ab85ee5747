"""What a SingleStream run must show: one query after another, the latency's 90th percentile."""

import pytest

pytestmark = pytest.mark.performance
MODE, SCENARIOS = "performance", ("SingleStream",)


def test_rule(verdict, expect):
    expect(verdict)
