"""The one way to edit a text or a file of JSON in a tree of them.

A change takes the place where it is made, such as a submission's or a performance folder.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Place = TypeVar("Place")


def at(path: str) -> Callable[[Path], Path]:
    return lambda folder: folder / path


def text_edited(
    path: Callable[[Place], Path], edit: Callable[[str], str]
) -> Callable[[Place], None]:
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
    def change(place: Place) -> None:
        path(place).write_bytes(edit(path(place).read_bytes()))

    return change


def removed(path: Callable[[Place], Path]) -> Callable[[Place], None]:
    def change(place: Place) -> None:
        target = path(place)
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return change


def together(*changes: Callable[[Place], object]) -> Callable[[Place], None]:
    def change(place: Place) -> None:
        for part in changes:
            part(place)

    return change
