"""What accompanies a session and its runs: what features do beside its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mlperf_suite.feature import features

if TYPE_CHECKING:
    from pathlib import Path

    from mlperf_suite.engines.protocol import Engine, Profiler
    from mlperf_suite.loadgen.load_plan import RunKey
    from mlperf_suite.loadgen.runner import LoadRun
    from mlperf_suite.loadgen.timeline import Timeline
    from mlperf_suite.results.record import Result, RunRecord
    from mlperf_suite.session.progress_display import ProgressDisplay
    from mlperf_suite.settings import Settings


@dataclass(frozen=True, slots=True)
class ProfiledRuns:
    """How the selected performance runs are made under a profiler, which slows the engine down:
    for so many seconds, and as no result."""

    profiler: Profiler
    seconds: float


@dataclass(frozen=True, slots=True)
class RunAtHand:
    """A run of LoadGen that is made now. `number`: above 1 for a repeat. `folder`: of its logs.
    `profile`: None if no profiler watches this run."""

    key: RunKey
    number: int
    engine: Engine
    folder: Path
    result: Result
    profile: ProfiledRuns | None

    @property
    def record(self) -> RunRecord:
        """Figures of features go to its `parts`."""
        return self.result.runs[self.key.mode]


class Companion:
    """A feature's part of one session, made before anything else of it. Does nothing by itself."""

    def __init__(self, settings: Settings, display: ProgressDisplay) -> None:
        self.settings = settings
        self.display = display

    @classmethod
    def steps(cls, settings: Settings) -> Mapping[str, str]:
        """The steps between loading the engine of the runs and its first work: by a word for each,
        which `makers` has too, what it does."""
        return {}

    @classmethod
    def profile(cls, settings: Settings) -> ProfiledRuns | None:
        """The profiler that the engine is loaded with; None if this feature asks for none."""
        return None

    @classmethod
    def fault(cls, settings: Settings, given: Callable[[str], Any]) -> str | None:
        """An option that does nothing. `given`: an option's value on the command line."""
        return None

    def check(self) -> None:
        """Check the session for obstacles, after all other checks. Raises
        UsageError."""

    def makers(self) -> Mapping[str, Callable[[], object]]:
        """The maker of each of `steps`. Each raises SuiteError or OSError."""
        return {}

    def loaded(self, engine: Engine) -> None:
        """The engine of the runs was loaded."""

    def around(self, run: RunAtHand) -> AbstractContextManager[None]:
        """What encloses an accuracy run, a performance run or one of MLPerf's audits, without
        requests before it. Raises SuiteError or OSError."""
        return nullcontext()

    def made(self, run: RunAtHand, load_run: LoadRun) -> None:
        """The run was made, and is judged next. Raises SuiteError or OSError."""

    def timed(self, folder: Path, timeline: Timeline) -> None:
        """A performance run that LoadGen did not make has the times of its requests. `folder`: of
        its logs. Raises OSError."""

    def close(self) -> None:
        """The session is over, and its engine stopped."""


@cache
def companion_kinds() -> tuple[type[Companion], ...]:
    """The `SESSION` of each feature that has one."""
    places = (feature.session for feature in features() if feature.session)
    return tuple(import_module(place).SESSION for place in places)


def profile_of(settings: Settings) -> ProfiledRuns | None:
    """How runs of a session are profiled; None if they are not."""
    profiles = (kind.profile(settings) for kind in companion_kinds())
    return next((profile for profile in profiles if profile is not None), None)
