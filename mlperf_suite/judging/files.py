"""Reading the files beside logs; none of it raises for what is in them."""

from __future__ import annotations

import json
from pathlib import Path

from mlperf_suite.compliance.submission_rules import JsonFile
from mlperf_suite.scorers.protocol import Scorer


def read_text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    # ValueError: no name of a file, as one that was read from a file may be.
    except (OSError, ValueError):
        return None


def read_json(path: Path) -> JsonFile:
    text = read_text(path)
    if text is None:
        return JsonFile({}, f"no {path.name}")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return JsonFile({}, f"{path.name} is not JSON")
    return (
        JsonFile(content)
        if isinstance(content, dict)
        else JsonFile({}, f"{path.name} is no object")
    )


def size_of(path: Path) -> int:
    """The file's size in bytes; 0 where there is none."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def read_not_judged(folder: Path, scorer: Scorer) -> dict[str, str]:
    """The figures that the suite could not have of an accuracy run, and why; see `scorer_json`."""
    found = read_json(folder / f"{scorer.name}.json").content.get("not_judged")
    return {str(n): str(why) for n, why in found.items()} if isinstance(found, dict) else {}


def read_scores(folder: Path, scorer: Scorer) -> dict[str, float]:
    """The figures that the suite wrote beside an accuracy run's logs, by name; none is empty."""
    content = read_json(folder / f"{scorer.name}.json").content
    # Only percentages stand there under their bare names.
    named = {name.removeprefix("run_"): value for name, value in content.items()}
    return {n: float(v) for n, v in named.items() if type(v) in (int, float) and abs(v) < 1e15}
