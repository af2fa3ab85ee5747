"""Reads the files beside logs; no content makes these functions raise."""

from __future__ import annotations

import json
from pathlib import Path

from mlperf_suite.rules.submission_rules import JsonFile
from mlperf_suite.scorers.scorer import Scorer


def read_text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    # ValueError: not a valid file name, since the name may itself come from a file.
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
    """The file's size in bytes; 0 if there is no file."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def read_not_judged(folder: Path, scorer: Scorer) -> dict[str, str]:
    """The figures of an accuracy run that the suite could not judge, and why; see `scorer_json`."""
    found = read_json(folder / f"{scorer.name}.json").content.get("not_judged")
    return {str(n): str(why) for n, why in found.items()} if isinstance(found, dict) else {}


def read_scores(folder: Path, scorer: Scorer) -> dict[str, float]:
    """The figures that the suite wrote beside an accuracy run's logs, by name; may be empty."""
    content = read_json(folder / f"{scorer.name}.json").content
    # Only percentages are stored under their bare names.
    named = {name.removeprefix("run_"): value for name, value in content.items()}
    return {n: float(v) for n, v in named.items() if type(v) in (int, float) and abs(v) < 1e15}
