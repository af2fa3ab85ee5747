"""What logs that already exist must show: pytest -m compliance --logs FOLDER."""

import pytest

pytestmark = pytest.mark.compliance


def test_rule(log_verdict, expect):
    """Each rule that holds for a run in the folder."""
    expect(log_verdict)
