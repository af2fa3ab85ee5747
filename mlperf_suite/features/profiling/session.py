"""Makes the performance runs of a session under a profiler."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlperf_suite import ranges
from mlperf_suite.engines.protocol import Engine, Profiler, ProfilingEngine, trace_files
from mlperf_suite.errors import RunError, SuiteError
from mlperf_suite.features.profiling import nsight
from mlperf_suite.features.profiling.trace import PROFILE, ProfileFigures, top_operations
from mlperf_suite.session.companion import Companion, ProfiledRuns, RunAtHand

if TYPE_CHECKING:
    from mlperf_suite.results.record import RunRecord
    from mlperf_suite.settings import Settings

_OPENS: dict[Profiler, str] = {
    "torch": "Open the trace in https://ui.perfetto.dev (Open trace file; it stays in the browser) "
    "or in chrome://tracing",
    "cuda": "Open the trace with Nsight Systems (nsys-ui FILE), or sum it up with nsys stats FILE",
}


class Profiling(Companion):
    @classmethod
    def profile(cls, settings: Settings) -> ProfiledRuns | None:
        values = settings.feature_options
        profiler = values["profile_run"]
        return ProfiledRuns(profiler, values["profile_seconds"]) if profiler else None

    @classmethod
    def fault(cls, settings: Settings, given: Callable[[str], Any]) -> str | None:
        if given("profile_seconds") and not cls.profile(settings):
            return "--profile-seconds: can only be used with --profile-run"
        return None

    def check(self) -> None:
        if self.settings.feature_options["profile_run"] == "cuda":
            nsight.check()
            ranges.turn_on()

    def around(self, run: RunAtHand) -> contextlib.AbstractContextManager[None]:
        if run.profile is None:
            return contextlib.nullcontext()
        return _profiling(run.profile.profiler, run.engine, run.result.folder.path, run.record)

    def close(self) -> None:
        ranges.turn_off()


SESSION = Profiling


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
def _profiling(
    profiler: Profiler, engine: Engine, run_folder: Path, record: RunRecord
) -> Iterator[None]:
    """Profile the block, leave the trace in the run's folder and the figures in its record.

    Raises RunError if the engine has no profiler, Nsight Systems fails or there is no trace,
    EngineError if the engine does, and OSError if the folder cannot be written.
    """
    from mlperf_suite.results.run_folder import PROFILE_FOLDER

    if not isinstance(engine, ProfilingEngine):
        name = engine.description.name
        raise RunError(f"--profile-run {profiler}: {name} has no profiler")
    folder = run_folder / PROFILE_FOLDER
    folder.mkdir(exist_ok=True)
    with _recording(profiler, folder), _profiled(engine, lambda: engine.alive, folder):
        start_s = time.monotonic()
        yield
        seconds = time.monotonic() - start_s
    files = nsight.traces(folder) if profiler == "cuda" else trace_files(folder)
    if not files:
        raise RunError(f"--profile-run {profiler}: the profiler left no trace in {folder}")
    with ranges.named("operations of the trace"):
        operations = top_operations(files) if profiler == "torch" else None
    names = tuple(f"{PROFILE_FOLDER}/{path.name}" for path in files)
    record.parts[PROFILE] = ProfileFigures(
        profiler, round(seconds, 3), names, f"{_OPENS[profiler]}: {', '.join(names)}.", operations
    )
