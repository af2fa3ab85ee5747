"""The folder of one run, and those beside it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from mlperf_suite.errors import UsageError
from mlperf_suite.secrets import scrub

SUMMARY_JSON, CONFIG_JSON = "summary.json", "config.json"
_RUN_NAME = re.compile(r"\d{8}-\d{6}(-[a-z]+){1,2}(-\d+)?")


def check_writable(results_dir: Path) -> None:
    """Make the results folder and write to it. Raises UsageError where either cannot be done."""
    try:
        results_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results_dir):
            return
    except OSError as error:
        raise UsageError(
            f"--results-dir {results_dir}: cannot be written: {error.strerror}"
        ) from error


def write_json(path: Path, content: object) -> None:
    """Write a JSON file in one step, so that a reader never sees half of it."""
    made = path.with_name(path.name + ".part")
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    made.write_text(scrub(text), encoding="utf-8")
    made.replace(path)


class RunFolder:
    """One run's folder: results/<time>-<category>-<scenario>/, or results/<time>-mmlu/."""

    def __init__(
        self, results_dir: Path, category: str, scenario: str | None, started: datetime
    ) -> None:
        self.kind = f"{category}-{scenario.lower()}" if scenario else category
        name = f"{started:%Y%m%d-%H%M%S}-{self.kind}"
        for number in range(1, 1000):
            self.path = results_dir / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(parents=True)
                break
        self.accuracy = self.path / "Accuracy"
        self.performance = self.path / "Performance"
        self.compliance = self.path / "Compliance"

    def of_mode(self, mode: str) -> Path:
        """Where a run of this mode has its LoadGen logs."""
        folders = {"accuracy": self.accuracy, "performance": self.performance}
        return folders.get(mode) or self.compliance / mode.upper()

    def write(self, name: str, content: object) -> None:
        """Write a JSON file of the run."""
        write_json(self.path / name, content)

    def write_text(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def publish(self, *, keep_all: bool) -> None:
        """Point `latest` here; without `keep_all`, drop older runs of its kind."""
        results_dir = self.path.parent
        if not keep_all:
            for older in run_folders(results_dir):
                same_kind = older.name[16:].startswith(self.kind)
                if older != self.path and same_kind and older.name < self.path.name:
                    shutil.rmtree(older)
        link = results_dir / ".latest"
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(self.path.name)
        link.replace(results_dir / "latest")


def run_folders(results_dir: Path) -> list[Path]:
    """The folders of kept runs, newest first."""
    return sorted(
        (
            p
            for p in results_dir.iterdir()
            if p.is_dir() and not p.is_symlink() and _RUN_NAME.fullmatch(p.name)
        ),
        reverse=True,
    )


def read_summary(folder: Path) -> dict[str, Any] | None:
    """A run's summary.json, or None where there is none that can be read."""
    return _read_object(folder / SUMMARY_JSON)


def read_config(folder: Path) -> dict[str, Any] | None:
    """A run's config.json, or None where there is none that can be read."""
    return _read_object(folder / CONFIG_JSON)


def _read_object(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
