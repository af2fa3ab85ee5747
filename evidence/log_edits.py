"""The one way to read, edit and write a log of a submission tree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from evidence.tree_edits import Change, Home
from meta_tests.tampering.edits import text_edited
from mlperf_suite.loadgen.logs import DETAIL

PREFIX = ":::MLLOG "
"""What a line of a detail log begins with, before its JSON."""
Place = TypeVar("Place")
New = Callable[[Any], object]
"""Maps a value in a log to its new value."""


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


def answers_edited(
    path: Callable[[Place], Path], edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> Callable[[Place], None]:
    """Change the answers of an accuracy log."""

    def edit_text(text: str) -> str:
        rows = ",\n".join(json.dumps(row) for row in edit(json.loads(text)))
        return f"[\n{rows}\n]\n"

    return text_edited(path, edit_text)
