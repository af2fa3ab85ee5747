"""Kept results by the name of their experiment, `mlflow:EXPERIMENT[@last-good|@pinned|@RUN_ID]`:
runs that `compare` takes, and the baselines of `--baseline`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlperf_suite.errors import SuiteError, UsageError
from mlperf_suite.features.tracking.options import target_of
from mlperf_suite.features.tracking.trackers import (
    BASELINE_PREFIX,
    LAST_GOOD,
    MLFLOW,
    NODES,
    PINNED,
    PINNED_TAG,
    URI_VARIABLE,
    TrackingTarget,
    is_tracked,
)
from mlperf_suite.results.baseline import BaselineRun, load_baselines

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

BASELINE_FOLDER = ".track-baselines"
"""In the results folder: the files of baselines, by the ids of their runs."""
FETCH_S = 120.0
"""What reading results may take, in s: without them there is nothing to compare with."""
_PLACE = re.compile(r"(?P<experiment>.+?)(?:@(?P<which>last-good|pinned|[0-9a-f]{32}))?")


@dataclass(frozen=True, slots=True)
class TrackedName:
    """A name of kept results. `which`: as `BaselineTracker` takes it, empty if it does not say.
    `option`: the text that errors put before the name."""

    text: str
    experiment: str
    which: str
    option: str

    @classmethod
    def parse(cls, text: str, option: str) -> TrackedName:
        """Raises UsageError."""
        match = _PLACE.fullmatch(text.removeprefix(BASELINE_PREFIX))
        if match is None:
            raise UsageError(f"{option}{text}: which experiment? mlflow:EXPERIMENT")
        return cls(text, match["experiment"], match["which"] or "", option)

    def fetch(
        self, which: str, into: Path, *, place: str = "", system: str | None = None
    ) -> list[tuple[str, Path]]:
        """The results with their labels, in folders below `into`; none if the experiment has none.

        `place`: the server, by default the environment's. `system`: as in `BaselineTracker`.
        Raises UsageError.
        """
        from mlperf_suite.features.tracking.sender import fetch

        if not place and not os.environ.get(URI_VARIABLE):
            raise UsageError(
                f"{self.option}{self.text}: needs {URI_VARIABLE}, or --track mlflow:URI"
            )
        target = TrackingTarget(MLFLOW, place, self.experiment)
        try:
            folders = fetch(target, which, system, into.absolute(), FETCH_S)
        except SuiteError as error:
            raise UsageError(f"{self.option}{self.text}: {error}") from None
        return [(f"{BASELINE_PREFIX}{self.experiment}@{f.parent.name}", f) for f in folders]

    def missing(self, which: str, among: str = "") -> UsageError:
        """That the experiment has no such result. `among`: the only ones that count."""
        kinds = {LAST_GOOD: "good result", NODES: "result of the suite"}
        kind = kinds.get(which, f"result with the tag {PINNED_TAG}")
        where = f"in the experiment {self.experiment}, or no such experiment"
        return UsageError(f"{self.option}{self.text}: no {kind} {among}{where}")


class _Runs:
    """Results for `compare`: the newest of each node, unless the name says which."""

    usage = f"{BASELINE_PREFIX}EXPERIMENT[@{'|@'.join((LAST_GOOD, PINNED, 'RUN_ID'))}], by default "
    usage += "the newest of each node"

    def takes(self, name: str) -> bool:
        return is_tracked(name)

    def fetch(self, name: str, into: Path) -> list[tuple[str, Path]]:
        asked = TrackedName.parse(name, "compare: ")
        which = asked.which or NODES
        if found := asked.fetch(which, into):
            return found
        raise asked.missing(which)


RUNS = _Runs()


def tracked_baselines(settings: Settings) -> dict[tuple[str, str], BaselineRun]:
    """All baselines of a session, by benchmark id and scenario. Raises UsageError."""
    fetched = {
        folder: label
        for name in filter(is_tracked, settings.baselines)
        for label, folder in _fetched(name, settings)
    }
    paths = [Path(name) for name in settings.baselines if not is_tracked(name)]
    return {
        kind: replace(run, label=fetched.get(Path(run.label), run.label))
        for kind, run in load_baselines([*paths, *fetched]).items()
    }


def _fetched(text: str, settings: Settings) -> list[tuple[str, Path]]:
    """The label and the folder of each baseline of an experiment."""
    name, own = TrackedName.parse(text, "--baseline "), target_of(settings)
    system = None if settings.baseline_allow_different else _system_of(settings)
    which = name.which or LAST_GOOD
    place = own.place if own and own.tracker == MLFLOW else ""
    into = settings.results_dir / BASELINE_FOLDER
    found = name.fetch(which, into, place=place, system=system)
    if not found:
        raise name.missing(which, "of this machine, model, profile and round " if system else "")
    return found


def _system_of(settings: Settings) -> str:
    """The tag mlperf.system of this session's results."""
    from mlperf_suite.features.tracking.tracked_result import system_key
    from mlperf_suite.hardware import describe_system
    from mlperf_suite.session.engine_source import source_of

    urls = source_of(settings).urls(settings)
    rules = settings.profile, settings.round.name
    return system_key(describe_system(), set(urls), settings.model, *rules)


def drop_unselected(
    baselines: Mapping[tuple[str, str], BaselineRun], selected: set[tuple[str, str]]
) -> None:
    """An experiment has more kinds of results than a session makes: only those are compared."""
    assert isinstance(baselines, dict)
    for kind in [k for k, run in baselines.items() if is_tracked(run.label) and k not in selected]:
        del baselines[kind]
