"""Other places of kept results, whose runs `compare` takes by a name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol

from mlperf_suite.feature import features


class RunPlace(Protocol):
    """The `RUNS` of a feature's module. `usage`: its names and what they are, for a help text."""

    usage: str

    def takes(self, name: str) -> bool:
        """Whether a name is of results there."""

    def fetch(self, name: str, into: Path) -> list[tuple[str, Path]]:
        """The results with their labels, in folders below `into`. Raises UsageError."""


def run_places() -> list[RunPlace]:
    return [import_module(feature.runs).RUNS for feature in features() if feature.runs]
