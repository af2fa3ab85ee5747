"""The rules for existing logs: pytest -m compliance --logs FOLDER."""

import pytest

pytestmark = pytest.mark.compliance


def test_rule(log_verdict, expect):
    """Each rule that applies to a run in the folder."""
    expect(log_verdict)
