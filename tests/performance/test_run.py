"""Each performance run as pytest-benchmark keeps and compares it: pytest --benchmark-autosave."""

import pytest

pytestmark = pytest.mark.performance


def test_run(benchmarked_run):
    """LoadGen reported a rate, which pytest-benchmark keeps as rounds of one sample each."""
    assert benchmarked_run > 0
