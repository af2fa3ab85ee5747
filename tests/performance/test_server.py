"""What a Server run must show: TTFT and TPOT at p99 within limits, and enough queries to say so."""

import pytest

pytestmark = pytest.mark.performance
MODE, SCENARIOS = "performance", ("Server",)


def test_rule(verdict, expect):
    expect(verdict)
