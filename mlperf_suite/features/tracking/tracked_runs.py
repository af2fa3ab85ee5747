"""Kept results by the name of their experiment: `mlflow:EXPERIMENT[@last-good|@pinned|@RUN_ID]`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.errors import SuiteError, UsageError
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
