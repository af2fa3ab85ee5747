"""Folders made to harm: whatever they say of themselves is a poison."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from meta_tests.reports.hostile_runs import (
    FORMULA,
    LONG,
    UNPRINTABLE,
    UNPRINTED,
    check_texts,
    poison_file,
)
from meta_tests.reports.kept_run import write_kept
from meta_tests.reports.outputs import page_tags
from meta_tests.suite_runs import ROOT
from mlperf_suite.loadgen.timeline import TIMELINE_JSON
from mlperf_suite.results.run_folder import CHECKSUMS_JSON, SUMMARY_JSON

DEEP: Any = "deep"
for _ in range(400):
    DEEP = [DEEP]
RUN_NAME = "20261120-06562{}-llama3.1-8b-server"
POISONS: dict[str, Any] = {
    "unprintable": UNPRINTED,
    "formula": FORMULA,
    "long": LONG,
    "huge": 1.7e308,
    "no number": float("nan"),
    "infinite": float("inf"),
    "many digits": 10**4000,
    "zero": 0,
    "minus": -1,
    "deep": DEEP,
}
ANY_NAME = os.fsdecode(b"run-\xff\xfe\x1b[2J\x07" + FORMULA.encode())
"""Of a folder: all that a file system takes."""


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


def check_shown(folder: Path, *shown: str) -> None:
    """What was written into the folder, and what was shown, can do nothing."""
    check_texts(folder)
    assert not any(map(UNPRINTABLE.search, shown))
    assert not any("Traceback" in text for text in shown)


def check_is_text(folder: Path) -> None:
    """In the pages and texts in a folder, what a hostile folder says is text."""
    for page in folder.rglob("*.html"):
        tags = page_tags(page.read_text())
        assert tags & {"script", "img", "iframe", "object"} == set()
        assert "&lt;script&gt;" in page.read_text().replace("<wbr>", "")
    for text in folder.rglob("*.md"):
        assert re.search(r"(?<!\\)<script", text.read_text()) is None


READ = (
    *(SUMMARY_JSON, "config.json", "Accuracy/samples.json", "Accuracy/answers.json"),
    *("Accuracy/rouge_samples.json", "samples.csv", CHECKSUMS_JSON),
    *("Performance/timeline.json", "Performance/energy.json"),
    *("Performance/mlperf_log_detail.txt", "Performance/mlperf_log_summary.txt"),
)


def write_unreadable(folder: Path, name: str, kind: str) -> Path:
    """A run's folder in which a file would block or fill the memory."""
    write_kept(folder)
    summary = json.loads((folder / SUMMARY_JSON).read_text())
    summary["run"]["energy"] = {"measured": []}
    (folder / SUMMARY_JSON).write_text(json.dumps(summary))
    # Its plots take most of the time.
    (folder / "Performance" / TIMELINE_JSON).unlink()
    (folder / name).unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(folder / name)
    else:
        subprocess.run(["truncate", "-s10G", str(folder / name)], check=True)
    return folder


def write_all_unreadable(results: Path) -> list[str]:
    """Runs in each of which another file would block or fill the memory."""
    kinds = ((name, kind) for name in READ for kind in ("FIFO", "sparse"))
    return [
        str(write_unreadable(results / f"{RUN_NAME.format(number)}-{number + 2}", name, kind))
        for number, (name, kind) in enumerate(kinds)
    ]


def run_in_bounds(code: str) -> None:
    """Run code in a process of its own, which may take 4 GiB and ten minutes."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
    command = [sys.executable, "-c", limit + code]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600)
