"""What a profile found, as summary.json has it."""

from __future__ import annotations

from dataclasses import dataclass

from mlperf_suite.features.profiling.trace import TopOperations

PROFILE = "run.profile"
"""The name of the figures in summary.json."""


@dataclass(frozen=True, slots=True)
class ProfileFigures:
    """The profile of a performance run. `seconds`: how long the profiler ran. `files`: the traces,
    as paths in the run's folder. `opens`: how to view them, a sentence. `operations`: the longest
    operations, only for torch's traces."""

    profiler: str = ""
    seconds: float = 0.0
    files: tuple[str, ...] = ()
    opens: str = ""
    operations: TopOperations | None = None
