"""The one way to edit a text or a file of JSON in a tree of them.

A change takes the place where it is made: a submission's folder (`Home`) or a performance folder.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.judging.submissions import ACCURACY_TXT

Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class Home:
    """<division>/<submitter> of a tree, and where its files are in the round's layout.

    A scenario is one of `benchmark`'s, or <benchmark>/<scenario>.
    """

    path: Path
    layout: str
    benchmark: str = LLAMA3_1_8B.id

    @property
    def system(self) -> str:
        return next((self.path / "results").iterdir()).name

    def place(self, branch: str, scenario: str) -> Path:
        benchmark = self.benchmark
        if "/" in scenario:
            benchmark, scenario = scenario.split("/")
        folder = "results" if self.layout == "v6" else branch
        return self.path / folder / self.system / benchmark / scenario

    def performance(self, scenario: str) -> Path:
        return self.place("results", scenario) / "performance" / "run_1"

    def accuracy(self, scenario: str) -> Path:
        return self.place("results", scenario) / "accuracy"

    def accuracy_txt(self, scenario: str) -> Path:
        return self.accuracy(scenario) / ACCURACY_TXT

    def audit(self, name: str, scenario: str) -> Path:
        return self.place("compliance", scenario) / name

    def test06(self, scenario: str) -> Path:
        return self.audit("TEST06", scenario)

    def measurements(self, scenario: str) -> Path:
        return self.place("measurements", scenario)

    @property
    def system_json(self) -> Path:
        return self.path / "systems" / f"{self.system}.json"


Change = Callable[[Home], object]


@dataclass(frozen=True, slots=True)
class Tampering:
    """A change to a tree, and exactly those rules of the suite that detect it.

    accuracy_passed is not listed: it follows from every failed accuracy run. `fakes`: what a forged
    tree makes readers believe.
    """

    change: Change
    rules: frozenset[str]
    fakes: str = ""


def seen_by(change: Change, rules: str = "") -> Tampering:
    """A change with the names of the rules that detect it, separated by spaces."""
    return Tampering(change, frozenset(rules.split()))


# Files


def text_edited(
    path: Callable[[Place], Path], edit: Callable[[str], str]
) -> Callable[[Place], None]:
    """Change the text of a file."""

    def change(place: Place) -> None:
        file = path(place)
        file.write_text(edit(file.read_text(encoding="utf-8")), encoding="utf-8")

    return change


def replaced(
    pattern: str, new: str, path: Callable[[Place], Path], count: int = 0
) -> Callable[[Place], None]:
    """Replace text in a file, which must contain the old text: else LookupError."""

    def edit(text: str) -> str:
        text, times = re.subn(pattern, new, text, count=count, flags=re.MULTILINE)
        if not times:
            raise LookupError(f"no {pattern}")
        return text

    return text_edited(path, edit)


def json_edited(
    path: Callable[[Place], Path], edit: Callable[[Any], object]
) -> Callable[[Place], None]:
    """Change what a file of JSON contains, in place."""

    def edit_text(text: str) -> str:
        content = json.loads(text)
        edit(content)
        return json.dumps(content)

    return text_edited(path, edit_text)


def bytes_edited(
    path: Callable[[Place], Path], edit: Callable[[bytes], bytes]
) -> Callable[[Place], None]:
    """Change the bytes of a file."""

    def change(place: Place) -> None:
        path(place).write_bytes(edit(path(place).read_bytes()))

    return change


def removed(path: Callable[[Place], Path]) -> Callable[[Place], None]:
    """Take a file or a folder away."""

    def change(place: Place) -> None:
        target = path(place)
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return change


def together(*changes: Callable[[Place], object]) -> Callable[[Place], None]:
    """Apply changes one after another."""

    def change(place: Place) -> None:
        for part in changes:
            part(place)

    return change


def system_field(name: str, value: object) -> Change:
    """Give a field of the system's description a value; None takes it out."""

    def edit(content: dict[str, object]) -> None:
        if value is None:
            del content[name]
        else:
            content[name] = value

    return json_edited(lambda home: home.system_json, edit)
