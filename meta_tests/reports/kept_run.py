"""Folders of a run that was kept: as the suite left it, and as a row of an index."""

import json
import shutil
from pathlib import Path
from typing import Any

from meta_tests.made_lives import made_marks, made_steps, made_timeline
from mlperf_suite.loadgen.timeline import Timeline, write_timeline

KEPT_RUN = Path(__file__).parent.parent / "data" / "kept_run"


def a_timeline() -> Timeline:
    rows = [(i * 0.5, i * 0.5 + 0.2 + i / 300, i * 0.5 + 6.0, 64) for i in range(120)]
    return made_timeline(rows, made_steps([i / 5 for i in range(330)], 20), made_marks(rows))


def write_kept(folder: Path) -> Path:
    """A copy of the run, with a timeline and answers."""
    shutil.copytree(KEPT_RUN, folder)
    for name in ("Performance", "Accuracy"):
        (folder / name).mkdir()
    write_timeline(folder / "Performance", a_timeline())
    sample = {"index": 7, "input": "An article.", "answer": "An answer.", "reference": "A text."}
    (folder / "Accuracy" / "samples.json").write_text(json.dumps({"samples": [sample, 3]}))
    return folder


def change_summary(folder: Path, **parts: Any) -> dict[str, Any]:
    """Write other members into those of a run's summary.json; the whole of it."""
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    for name, value in parts.items():
        content[name] = content.get(name, {}) | value if isinstance(value, dict) else value
    (folder / "summary.json").write_text(json.dumps(content))
    return content


def results_of(folder: Path, count: int = 3) -> list[Path]:
    """Folders with the summaries of so many runs, of 100 tokens/s, 101 …."""
    runs = []
    for number in range(count):
        run = folder / f"20261120-06562{number}-llama3.1-8b-server"
        run.mkdir(parents=True)
        shutil.copy(KEPT_RUN / "summary.json", run)
        summary = json.loads((run / "summary.json").read_text())
        summary["run"]["performance"]["tokens_per_sec"] = 100.0 + number
        (run / "summary.json").write_text(json.dumps(summary))
        runs.append(run)
    return runs
