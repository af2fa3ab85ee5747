"""What logs that already exist must show: pytest -m compliance --logs FOLDER."""

import pytest

pytestmark = pytest.mark.compliance


def test_rule(log_verdict, expect):
    expect(log_verdict)
