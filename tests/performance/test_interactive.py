"""What an Interactive run must show: Server's demands, with tighter limits on TTFT and TPOT."""

import pytest

pytestmark = pytest.mark.performance
MODE, SCENARIOS = "performance", ("Interactive",)


def test_rule(verdict, expect):
    expect(verdict)
