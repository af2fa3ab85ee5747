"""Reads the files beside logs, a power measurement included; no content makes it raise."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.loadgen.logs import DETAIL, DetailLog
from mlperf_suite.rules.power_measurement import (
    CLIENT_JSON,
    HASHED,
    POWER,
    PTD_LOG,
    RANGING,
    SERVER_JSON,
    SPL,
    TESTING,
    PowerFacts,
)
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
    reasons = read_json(folder / f"{scorer.name}.json").content.get("not_judged")
    return {str(n): str(why) for n, why in reasons.items()} if isinstance(reasons, dict) else {}


def read_scores(folder: Path, scorer: Scorer) -> dict[str, float]:
    """The figures that the suite wrote beside an accuracy run's logs, by name; may be empty."""
    content = read_json(folder / f"{scorer.name}.json").content
    # Only percentages are stored under their bare names.
    values = {name.removeprefix("run_"): value for name, value in content.items()}
    return {n: float(v) for n, v in values.items() if type(v) in (int, float) and abs(v) < 1e15}


# A power measurement

_POWER_TEXTS = (
    *(f"{POWER}/{name}" for name in (CLIENT_JSON, SERVER_JSON, PTD_LOG)),
    *(f"{mode}/{name}" for mode in (RANGING, TESTING) for name in (DETAIL, SPL)),
)


def read_power(performance: Path, scenario: Scenario, detail: DetailLog) -> PowerFacts | None:
    """The measurement in a scenario's folder `performance`; None if it has no folder power.

    `detail`: the detail log of the measured run.
    """
    if not (performance / POWER).exists():
        return None
    raw = {path: _bytes(performance / path) for path in sorted({*_POWER_TEXTS, *HASHED})}
    texts = {path: text for path in _POWER_TEXTS if (text := _text(raw[path])) is not None}
    return PowerFacts(
        scenario,
        detail,
        {
            name: names
            for name in (POWER, RANGING, TESTING)
            if (names := _file_names(performance / name)) is not None
        },
        texts,
        {
            # The hash that client and server recorded; the suite does not choose it.
            path: hashlib.sha1(content, usedforsecurity=False).hexdigest()
            for path in HASHED
            if (content := raw[path]) is not None
        },
        _json(texts.get(f"{POWER}/{CLIENT_JSON}")),
        _json(texts.get(f"{POWER}/{SERVER_JSON}")),
    )


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _file_names(folder: Path) -> frozenset[str] | None:
    """The names of the files in a folder; None if it cannot be read."""
    try:
        return frozenset(path.name for path in folder.iterdir() if path.is_file())
    except OSError:
        return None
