"""A performance run under the engine's profiler: how long it is, and what it leaves."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_suite.engines.protocol import Engine, Profiler, ProfilingEngine
from mlperf_suite.errors import RunError, SuiteError
from mlperf_suite.loadgen.load_plan import SMOKE, Shortened
from mlperf_suite.profiling import nsight, ranges
from mlperf_suite.profiling.trace import top_operations, trace_files
from mlperf_suite.results.run_folder import PROFILE_FOLDER
from mlperf_suite.results.schema import ProfileFigures

_OPENS: dict[Profiler, str] = {
    "torch": "Open the trace in https://ui.perfetto.dev (Open trace file; it stays in the browser) "
    "or in chrome://tracing",
    "cuda": "Open the trace with Nsight Systems (nsys-ui FILE), or sum it up with nsys stats FILE",
}


@dataclass(slots=True)
class Profile:
    """What comes of a profile: `figures`, None until it was taken."""

    figures: ProfileFigures | None = None


def check(profiler: Profiler) -> None:
    """Find what a profile lacks before anything is loaded. Raises UsageError."""
    if profiler == "cuda":
        nsight.check()
        ranges.turn_on()


def shortened_to(seconds: float, loadgen_scenario: str) -> Shortened:
    """What LoadGen is asked for, for a run of so many seconds."""
    duration_ms = max(1, round(seconds * 1000))
    return replace(SMOKE[loadgen_scenario], min_duration_ms=duration_ms, min_query_count=1)


def samples_for(seconds: float, per_second: float | None, available: int) -> int:
    """How many samples a run of so many seconds takes: LoadGen issues whole multiples of them.

    `per_second`: those that the engine is expected to answer, or is sent; None where not known.
    """
    if per_second is None:
        return available
    return max(1, min(available, math.ceil(seconds * per_second)))


def _stopped(profiler: Profiler, engine: ProfilingEngine, folder: Path) -> tuple[Path, ...]:
    """End a profile; its files."""
    engine.stop_profile(folder)
    return nsight.end(folder) if profiler == "cuda" else trace_files(folder)


@contextlib.contextmanager
def taken(profiler: Profiler, engine: Engine, run_folder: Path) -> Iterator[Profile]:
    """Profile what is done inside; the trace lies in the run's folder afterwards.

    Raises RunError where the engine has no profiler or it left no trace, EngineError as the engine
    does, OSError where the folder cannot be written.
    """
    if not isinstance(engine, ProfilingEngine):
        name = engine.description.name
        raise RunError(f"--profile-run {profiler}: {name} has no profiler")
    folder, profile = run_folder / PROFILE_FOLDER, Profile()
    folder.mkdir(exist_ok=True)
    if profiler == "cuda":
        nsight.begin(folder)
    engine.start_profile()
    started = time.monotonic()
    try:
        yield profile
    except Exception:
        # A later run can be profiled only if this one is not; the reason is the run's own.
        with contextlib.suppress(SuiteError, OSError):
            if engine.alive:
                _stopped(profiler, engine, folder)
        raise
    seconds = time.monotonic() - started
    files = _stopped(profiler, engine, folder)
    if not files:
        raise RunError(f"--profile-run {profiler}: the profiler left no trace in {folder}")
    with ranges.named("operations of the trace"):
        operations = top_operations(files) if profiler == "torch" else None
    names = tuple(f"{PROFILE_FOLDER}/{path.name}" for path in files)
    profile.figures = ProfileFigures(
        profiler, round(seconds, 3), names, f"{_OPENS[profiler]}: {', '.join(names)}.", operations
    )
