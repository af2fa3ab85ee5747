"""Folders made to harm: whatever they say of themselves is a poison."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from meta_tests.features.aggregate.made_nodes import STARTED, MadeNode
from meta_tests.reports.hostile_runs import poison_file
from mlperf_suite.loadgen.timeline import TIMELINE_JSON
from mlperf_suite.results.run_folder import CHECKSUMS_JSON, SUMMARY_JSON, file_sha256

DEEP: Any = "deep"
for _ in range(400):
    DEEP = [DEEP]
RUN_NAME = "20261120-06562{}-llama3.1-8b-server"


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
