"""What a tracker is, and which one a user names: `mlflow`, or a Python module with a `TRACKER`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from mlperf_suite.errors import SuiteError
from mlperf_suite.secrets import remember_named

MLFLOW = "mlflow"
URI_VARIABLE = "MLFLOW_TRACKING_URI"
EXPERIMENT_VARIABLE = "MLFLOW_EXPERIMENT_NAME"
EXPERIMENT = "mlperf-suite"
"""The experiment without another name."""
NOT_INSTALLED = "mlflow-skinny is not installed: pip install 'mlperf-suite[mlflow]'"
BASELINE_PREFIX = f"{MLFLOW}:"
LAST_GOOD, PINNED, NODES = "last-good", "pinned", "nodes"
PINNED_TAG = "mlperf.pinned"


def is_tracked(baseline: str) -> bool:
    """Whether a value of --baseline is an experiment's and no path."""
    return baseline.startswith(BASELINE_PREFIX)


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """What a tracker keeps of a result, or of a part of one.

    `name`: of the result's folder, or of the part. `checksum`: the same for the same result,
    however often its reports are written; a part has that of its result. `params`: what identifies
    system and measurement. `metrics`: figures by names whose end says their unit, unless the tag
    unit/NAME does; `series`: the figures of equal parts of the run, in their order. `status`:
    FINISHED or FAILED. `started_ms`, `ended_ms`: since 1970. `parts`: repeats, points of a curve
    and trials of a search.
    """

    name: str
    checksum: str = ""
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    series: dict[str, tuple[float, ...]] = field(default_factory=dict)
    status: str = "FINISHED"
    started_ms: int = 0
    ended_ms: int = 0
    parts: tuple[TrackedRun, ...] = ()


class Tracker(Protocol):
    """A place for results, in a process of its own that may be ended at any moment."""

    def keep(self, run: TrackedRun, files: Path) -> str:
        """Keep a result, with all files in a folder, unless it is kept; return where, such as the
        URL of its page. May raise any exception: the result is then sent again later."""


class BaselineTracker(Tracker, Protocol):
    """A tracker that the regression gate and `compare` read from."""

    def fetch(self, which: str, system: str | None, into: Path) -> Sequence[Path]:
        """The folders ID/NAME of kept results below `into`, with the files that the gate reads.

        `which`: last-good or pinned, of each benchmark's scenario the newest; nodes, of each node's
        benchmark and scenario the newest; or the id of a run. `system`: the tag mlperf.system that
        they must have, None for any. Raises SuiteError.
        """


@dataclass(frozen=True, slots=True)
class TrackingTarget:
    """Where results go. `place`: the tracker's URI or project; empty for what its own variables
    say, so that no password is written."""

    tracker: str
    place: str
    experiment: str

    @classmethod
    def parse(cls, text: str, experiment: str) -> TrackingTarget:
        """NAME or NAME:PLACE. Raises ValueError for another form and for a place with a user or a
        password, which are the tracker's own variables."""
        remember_named({"track": text})
        name, _, place = text.strip().partition(":")
        url = urlsplit(place)
        if not all(map(str.isidentifier, name.split("."))) or url.username or url.password:
            raise ValueError(text)
        return cls(MLFLOW if name.casefold() == MLFLOW else name, place, experiment)

    @property
    def words(self) -> str:
        return f"{self.tracker}:{self.place}" if self.place else self.tracker

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def fault(self) -> str:
        """Why nothing can be sent there, as far as that can be said without asking it; empty if
        there is no reason."""
        if self.tracker == MLFLOW:
            return "" if find_spec(MLFLOW) else NOT_INSTALLED
        return "" if find_spec(self.tracker.partition(".")[0]) else f"no module {self.tracker}"

    def open(self) -> Tracker:
        """Raises SuiteError, and whatever the tracker raises."""
        if self.fault:
            raise SuiteError(self.fault)
        own = "mlperf_suite.features.tracking.mlflow_tracker"
        module = import_module(own if self.tracker == MLFLOW else self.tracker)
        tracker: Tracker = module.TRACKER(self.place, self.experiment)
        return tracker
