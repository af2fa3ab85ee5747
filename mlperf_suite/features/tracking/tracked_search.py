"""What is sent of a search for settings (`tune`): its trials as parts, from the file of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlperf_suite.features.tracking.tracked_result import Figures
from mlperf_suite.features.tracking.trackers import TrackedRun
from mlperf_suite.results.comparability import value_text
from mlperf_suite.untrusted_files import read_regular

TRIALS_JSONL = "trials.jsonl"


def tracked_search(folder: Path) -> TrackedRun:
    """A search; one that went on is another. Raises OSError."""
    content = read_regular(folder / TRIALS_JSONL)
    rows, figures = list(_rows(content)), Figures()
    figures.add("trials", rows)
    parts = [
        replace(part, params={name: value_text(of) for name, of in row["settings"].items()})
        for part, row in zip(figures.parts, rows, strict=True)
    ]
    rates = [part.metrics["rate"] for part in parts if "rate" in part.metrics]
    checksum = hashlib.sha256(content).hexdigest()
    return TrackedRun(
        folder.name,
        checksum,
        tags={"mlperf.checksum": checksum, "mlperf.kind": "search for settings"},
        metrics={"trials": float(len(rows)), **({"best_rate": max(rates)} if rates else {})},
        parts=tuple(parts),
    )


def _rows(content: bytes) -> Iterator[dict[str, Any]]:
    """The trials; a line that a full disk or a crash cut off is passed over."""
    for line in content.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("settings"), dict):
            yield row
