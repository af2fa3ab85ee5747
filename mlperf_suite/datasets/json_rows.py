"""JSON and JSONL data files, with errors that give the position of the fault in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from mlperf_suite.errors import DatasetError


def jsonl_rows(path: Path) -> Iterator[tuple[str, object]]:
    """Each non-empty line of a JSONL file, with a description of its place.

    Raises DatasetError that names file and line; OSError if the file cannot be read.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                place = f"line {number}"
                yield place, parse_json(path, f"{place}: ", decode_utf8(path, f"{place}: ", line))


def decode_utf8(path: Path, place: str, raw: bytes) -> str:
    """The text of `raw`. Raises DatasetError with `place` before the description of the fault."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(f"--dataset {path}: {place}not UTF-8 at byte {error.start}") from error


def parse_json(path: Path, place: str, text: str) -> object:
    """Parse JSON. Raises DatasetError with `place`, or with the line if that is empty."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise DatasetError(f"--dataset {path}: the file is empty") from error
        where = place or f"line {error.lineno}: "
        raise DatasetError(f"--dataset {path}: {where}not JSON: {error.msg}") from error
    except ValueError as error:
        # A number with more digits than Python accepts.
        raise DatasetError(f"--dataset {path}: {place}not JSON to be used: {error}") from error
    except RecursionError as error:
        raise DatasetError(f"--dataset {path}: {place}JSON nested too deeply") from error
