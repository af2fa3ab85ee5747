"""What an accuracy run must not have lost since an earlier one: pytest --baseline RUN."""

import pytest

pytestmark = pytest.mark.accuracy
MODE = "accuracy"


def test_score(regression_verdict, expect):
    expect(regression_verdict)
