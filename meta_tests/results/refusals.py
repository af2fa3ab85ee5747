"""What is said of runs that are no aggregate."""

from pathlib import Path

import pytest

from meta_tests.made_nodes import STARTED
from mlperf_suite.errors import RefusedError
from mlperf_suite.features.aggregate.aggregate import aggregate_runs


def refusals(*paths: Path, alone: tuple[Path, ...] = ()) -> list[str]:
    """Each reason, on a line of its own."""
    with pytest.raises(RefusedError) as error:
        aggregate_runs(paths, STARTED, alone)
    for reason in error.value.reasons:
        assert "\n" not in reason
    return list(error.value.reasons)
