"""TEST06: the tokens that LoadGen is told of are the answer's own, under the audit's settings."""

import pytest

pytestmark = pytest.mark.compliance
MODE, SCENARIOS = "test06", ("Offline", "Server", "Interactive")


def test_rule(verdict, expect):
    expect(verdict)
