"""What an Offline performance run must show: one query with every sample, ten minutes, tokens/s."""

import pytest

pytestmark = pytest.mark.performance
MODE, SCENARIOS = "performance", ("Offline",)


def test_rule(verdict, expect):
    expect(verdict)
