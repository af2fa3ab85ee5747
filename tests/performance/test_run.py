"""Each performance run for pytest-benchmark to save and compare: pytest --benchmark-autosave."""

import pytest

pytestmark = pytest.mark.performance


def test_run(benchmarked_run):
    """LoadGen reported a rate, which pytest-benchmark saves as rounds of one sample each."""
    assert benchmarked_run > 0
