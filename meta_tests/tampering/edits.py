"""The one way to read, edit and write a log, a text or a file of JSON, in a tree of them.

A change takes the place where it is made: a submission's folder (`Home`) or a performance folder.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.judging.submissions import ACCURACY_TXT
from mlperf_suite.loadgen.logs import DETAIL

PREFIX = ":::MLLOG "
"""What a line of a detail log begins with, before its JSON."""
Place = TypeVar("Place")
New = Callable[[Any], object]
"""Maps a value in a log to its new value."""


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


# Detail logs


@dataclass
class Entry:
    """A line of a detail log and its content, which is changed in place; an unchanged line keeps
    its bytes."""

    line: str
    content: dict[str, Any]

    @classmethod
    def read(cls, line: str) -> Entry:
        return cls(line, json.loads(line.removeprefix(PREFIX)))

    @property
    def key(self) -> str:
        return str(self.content["key"])

    @property
    def text(self) -> str:
        same = self.line and json.loads(self.line.removeprefix(PREFIX)) == self.content
        return self.line if same else PREFIX + json.dumps(self.content)


class DetailFile:
    """A detail log, rewritten at the end of its `with` block."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / DETAIL
        lines = self.path.read_text(encoding="utf-8").splitlines()
        self.entries = [Entry.read(line) for line in lines]

    def __enter__(self) -> DetailFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            text = "".join(f"{entry.text}\n" for entry in self.entries)
            self.path.write_text(text, encoding="utf-8")

    def change(self, pattern: str, new: New) -> dict[str, object]:
        """Change the value of each key that matches; return the new values. Raises LookupError if
        none does."""
        changes: dict[str, object] = {}
        for entry in self.entries:
            if re.fullmatch(pattern, entry.key):
                changes[entry.key] = entry.content["value"] = new(entry.content["value"])
        if not changes:
            raise LookupError(f"no {pattern} in {self.path}")
        return changes

    def before(self, key: str) -> int:
        """The index of the first line with a key."""
        return next(i for i, entry in enumerate(self.entries) if entry.key == key)


def log_values(folder: Callable[[Home], Path], changes: Mapping[str, New]) -> Change:
    """Change values of a detail log, by patterns of its keys."""

    def change(home: Home) -> None:
        with DetailFile(folder(home)) as log:
            for pattern, new in changes.items():
                log.change(pattern, new)

    return change


def is_(value: object) -> New:
    return lambda _: value


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


def answers_edited(
    path: Callable[[Place], Path], edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> Callable[[Place], None]:
    """Change the answers of an accuracy log."""

    def edit_text(text: str) -> str:
        rows = ",\n".join(json.dumps(row) for row in edit(json.loads(text)))
        return f"[\n{rows}\n]\n"

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
