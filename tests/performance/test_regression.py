"""What a performance run must not have lost since an earlier one: pytest --baseline RUN."""

import pytest

pytestmark = pytest.mark.performance
MODE = "performance"


def test_metric(regression_verdict, expect):
    expect(regression_verdict)
