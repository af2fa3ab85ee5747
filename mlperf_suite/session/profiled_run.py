"""Makes a performance run under the engine's profiler."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
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
    """The result of profiling: `figures`, None until the profile was taken."""

    figures: ProfileFigures | None = None


def check(profiler: Profiler) -> None:
    """Check what a profile needs before anything is loaded. Raises UsageError."""
    if profiler == "cuda":
        nsight.check()


def shortened_to(seconds: float, loadgen_scenario: str) -> Shortened:
    """LoadGen's settings for a run of this many seconds."""
    duration_ms = max(1, round(seconds * 1000))
    return replace(SMOKE[loadgen_scenario], min_duration_ms=duration_ms, min_query_count=1)


def samples_for(seconds: float, per_second: float | None, available: int) -> int:
    """The number of samples for a run of this many seconds; LoadGen issues whole multiples of it.

    `per_second`: samples/s that the engine is expected to answer or is sent; None if not known.
    """
    if per_second is None:
        return available
    return max(1, min(available, math.ceil(seconds * per_second)))


@contextlib.contextmanager
def _recording(profiler: Profiler, folder: Path) -> Iterator[None]:
    """Record the block with Nsight Systems, if that is the profiler.

    Nsight Systems is not part of the engine and keeps recording until told to stop, however the
    block ends.
    """
    if profiler != "cuda":
        yield
        return
    nsight.begin(folder)
    try:
        yield
    except BaseException:
        # The block's own exception is the one to report.
        with contextlib.suppress(RunError):
            nsight.end()
        raise
    nsight.end()


@contextlib.contextmanager
def _profiled(
    engine: ProfilingEngine, is_alive: Callable[[], bool], folder: Path
) -> Iterator[None]:
    """Switch the engine's profiler on for the block. `is_alive`: whether the engine is alive."""
    engine.start_profile()
    try:
        yield
    except Exception:
        # Stop profiling, so that a later run can be profiled; the run's own exception is the one to
        # report.
        with contextlib.suppress(SuiteError, OSError):
            if is_alive():
                engine.stop_profile(folder)
        raise
    engine.stop_profile(folder)


@contextlib.contextmanager
def profiling(profiler: Profiler, engine: Engine, run_folder: Path) -> Iterator[Profile]:
    """Profile the block and leave the trace in the run's folder.

    Raises RunError if the engine has no profiler, Nsight Systems fails or there is no trace,
    EngineError if the engine does, and OSError if the folder cannot be written.
    """
    if not isinstance(engine, ProfilingEngine):
        name = engine.description.name
        raise RunError(f"--profile-run {profiler}: {name} has no profiler")
    folder, profile = run_folder / PROFILE_FOLDER, Profile()
    folder.mkdir(exist_ok=True)
    with _recording(profiler, folder), _profiled(engine, lambda: engine.alive, folder):
        start_s = time.monotonic()
        yield profile
        seconds = time.monotonic() - start_s
    files = nsight.traces(folder) if profiler == "cuda" else trace_files(folder)
    if not files:
        raise RunError(f"--profile-run {profiler}: the profiler left no trace in {folder}")
    with ranges.named("operations of the trace"):
        operations = top_operations(files) if profiler == "torch" else None
    names = tuple(f"{PROFILE_FOLDER}/{path.name}" for path in files)
    profile.figures = ProfileFigures(
        profiler, round(seconds, 3), names, f"{_OPENS[profiler]}: {', '.join(names)}.", operations
    )
