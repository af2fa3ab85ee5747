"""What an accuracy run must show in every scenario: all answered, each score at its gate."""

import pytest

pytestmark = pytest.mark.accuracy
MODE, SCENARIOS = "accuracy", ("Offline", "Server", "Interactive", "SingleStream")


def test_rule(verdict, expect):
    expect(verdict)
