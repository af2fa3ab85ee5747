"""Several sessions that write to one results folder at the same time.

Processes that really do are in evidence/shared_results_folder."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mlperf_suite.reports.writing import publish
from mlperf_suite.results import run_folder as folder_module
from mlperf_suite.results.run_folder import RunFolder, results_lock, run_folders

NOW = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)


def test_the_tenth_run_of_a_second_is_newer_than_the_second(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path, "mmlu", None, NOW).path for _ in range(11)]
    assert run_folders(tmp_path) == folders[::-1]


def run_of(results_dir: Path, hour: int, status: str | None = "complete") -> RunFolder:
    """A run that ended, or with a status of its own; None: without a summary."""
    folder = RunFolder(results_dir, "mmlu", None, NOW.replace(hour=hour))
    if status is not None:
        folder.write("summary.json", {"schema_version": 6, "meta": {"status": status}})
    return folder


def test_only_runs_that_ended_are_dropped(tmp_path: Path) -> None:
    ended, goes_on, begins, newer_format, broken, of_a_session = (
        run_of(tmp_path, hour, status)
        for hour, status in enumerate(["failed", "running", None, None, None, "complete"])
    )
    for folder in (ended, newer_format, broken):
        folder.give_up_room()
    newer_format.write("summary.json", {"schema_version": 99, "meta": {"status": "running"}})
    broken.write_text("summary.json", "{half of it")
    baseline, newest = run_of(tmp_path, 19), run_of(tmp_path, 20)
    baseline.give_up_room()
    publish(newest, [baseline.path])
    kept = {goes_on, begins, newer_format, broken, of_a_session, baseline, newest}
    assert set(run_folders(tmp_path)) == {folder.path for folder in kept}


def test_latest_is_a_run_that_ended(tmp_path: Path) -> None:
    """A broken summary is no matter for the next run."""
    for hour, content in ((3, "[]"), (4, '{"schema_version": 6, "run": {"performance": [1]}}')):
        run_of(tmp_path, hour, None).write_text("summary.json", content)
    before, own = run_of(tmp_path, 1), run_of(tmp_path, 2)
    publish(before, None)
    publish(own, None, ended=False)
    assert (tmp_path / "latest").resolve() == before.path
    assert own.path.name in (tmp_path / "index.md").read_text()
    publish(own, None)
    assert (tmp_path / "latest").resolve() == own.path


def test_what_may_not_be_removed_fails_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(tmp_path, 1).give_up_room()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    publish(run_of(tmp_path, 2), [])
    assert len(run_folders(tmp_path)) == 2


def test_a_stopped_session_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LOCK_S", 0.1)
    own = run_of(tmp_path, 1)
    with results_lock(tmp_path):
        # A lock that is held is held against this process too: it is of the open file.
        publish(own, [])
    assert (tmp_path / "latest").resolve() == own.path
    assert own.path.name in (tmp_path / "index.md").read_text()
