"""Folders that a stranger made to harm: whatever they say of themselves is a poison."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from meta_tests.made_nodes import STARTED, MadeNode
from meta_tests.reports.outputs import HOSTILE
from mlperf_suite.loadgen.timeline import TIMELINE_JSON
from mlperf_suite.results.run_folder import CHECKSUMS_JSON, SUMMARY_JSON, file_sha256

UNPRINTED = "\x1b]0;title\x07\x1b[2J\x9b2J a\u202ebc\u2066 \ud83d and \udcff a\x00b"
FORMULA = r"$\frac{$ \$ $$"
LONG = f"{'x' * 30_000}\n" * 3 + "a\n" * 2000
TEXT = f"{UNPRINTED} {HOSTILE} {FORMULA} | {LONG[:20_000]}{LONG[-100:]}"
"""All at once."""
DEEP: Any = "deep"
for _ in range(400):
    DEEP = [DEEP]
UNPRINTABLE = re.compile(r"[^\n\x20-\x7e\xa1-\ud7ff\ue000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")
_IN_A_PAGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# What decides whether a folder is read as a run at all.
_KEPT = {"schema_version", "benchmark", "scenario", "category", "status", "rule", "sha256"}
RUN_NAME = "20261120-06562{}-llama3.1-8b-server"


def poisoned(value: Any, poison: Any) -> Any:
    """The value with the poison for everything of its kind in it, and for names of members."""
    if isinstance(value, dict):
        inside = {k: v if k in _KEPT else poisoned(v, poison) for k, v in value.items()}
        return inside | ({poison[:500]: "a", "b": poison} if isinstance(poison, str) else {})
    if isinstance(value, list):
        return [poisoned(item, poison) for item in value]
    is_number = isinstance(poison, int | float)
    fits = isinstance(value, int | float) if is_number else isinstance(value, str)
    return poison if fits and not isinstance(value, bool) else value


def poison_file(path: Path, poison: Any) -> None:
    path.write_text(json.dumps(poisoned(json.loads(path.read_text()), poison)))


def poison_run(folder: Path, poison: Any) -> Path:
    """Poison each file of a run of `kept_run.write_kept`."""
    summary = json.loads((folder / SUMMARY_JSON).read_text())
    summary["logs"] = summary["plots"] = ["a.txt"]
    (folder / SUMMARY_JSON).write_text(json.dumps(summary))
    for path in (SUMMARY_JSON, "config.json", "Accuracy/samples.json"):
        poison_file(folder / path, poison)
    timeline = json.loads((folder / "Performance" / TIMELINE_JSON).read_text())
    if isinstance(poison, str):
        parts = timeline["parts_ms"]
        timeline["parts_ms"] = {f"{n}{poison[:500]}": values for n, values in parts.items()}
    else:
        # The last of each column of times: a column of counts cannot have any number.
        for values in (*timeline.values(), *timeline["parts_ms"].values()):
            if isinstance(values, list) and values and isinstance(values[0], float):
                values[-1] = poison
    (folder / "Performance" / TIMELINE_JSON).write_text(json.dumps(timeline))
    return folder


def write_hostile_nodes(results: Path, poison: Any, names: Sequence[str] = "ab") -> list[Path]:
    """Runs of nodes that can be one aggregate, but for what they say."""
    folders = []
    for number, name in enumerate(names):
        began = STARTED + timedelta(seconds=number)
        folder = MadeNode(f"node-{name}", began=began).write(results / name)
        for path in (SUMMARY_JSON, "config.json"):
            poison_file(folder / path, poison)
        summary = json.loads((folder / SUMMARY_JSON).read_text())
        summary["meta"]["node_name"] = f"{name}{poison}" if isinstance(poison, str) else name
        (folder / SUMMARY_JSON).write_text(json.dumps(summary))
        log = folder / "Performance" / "mlperf_log_detail.txt"
        if not isinstance(poison, str):
            log.write_text(re.sub(r'"value": [\d.]+', f'"value": {poison}', log.read_text()))
        checksums = json.loads((folder / CHECKSUMS_JSON).read_text())
        checksums["files"] |= {p: file_sha256(folder / p) for p in checksums["files"]}
        (folder / CHECKSUMS_JSON).write_text(json.dumps(checksums))
        folders.append(folder)
    return folders


def check_texts(folder: Path) -> None:
    """Each text that was written can be shown."""
    for path in (*folder.rglob("*.md"), *folder.rglob("*.html")):
        forbidden = UNPRINTABLE if path.suffix == ".md" else _IN_A_PAGE
        assert not forbidden.search(path.read_text("utf-8")), path
