"""Reads a power measurement beside a performance run; no content makes it raise."""

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

_READ = (
    *(f"{POWER}/{name}" for name in (CLIENT_JSON, SERVER_JSON, PTD_LOG)),
    *(f"{mode}/{name}" for mode in (RANGING, TESTING) for name in (DETAIL, SPL)),
)


def read_power(performance: Path, scenario: Scenario, detail: DetailLog) -> PowerFacts | None:
    """The measurement in a scenario's folder `performance`; None if it has no folder power.

    `detail`: the detail log of the measured run.
    """
    if not (performance / POWER).exists():
        return None
    raw = {path: _bytes(performance / path) for path in sorted({*_READ, *HASHED})}
    texts = {path: text for path in _READ if (text := _text(raw[path])) is not None}
    return PowerFacts(
        scenario,
        detail,
        {
            name: files
            for name in (POWER, RANGING, TESTING)
            if (files := _files(performance / name)) is not None
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


def _files(folder: Path) -> frozenset[str] | None:
    """The names of the files in a folder; None if it cannot be read."""
    try:
        return frozenset(path.name for path in folder.iterdir() if path.is_file())
    except OSError:
        return None
