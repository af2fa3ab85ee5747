"""Several sessions that write to one results folder at the same time."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mlperf_suite.reports.writing import publish
from mlperf_suite.results import run_folder as folder_module
from mlperf_suite.results.run_folder import RunFolder, read_summary, results_lock, run_folders

NOW = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
SESSIONS, RUNS = 4, 26
WITHIN_S = 300.0


def write_runs(results_dir: Path, seconds: range, *, keeps: bool) -> list[str]:
    """What a session does with results that begin at these seconds; the names of their folders."""
    names = []
    for second in seconds:
        start = NOW + timedelta(seconds=second)
        folder = RunFolder(results_dir, "llama3.1-8b", "Offline", start)
        folder.write("summary.json", {"schema_version": 6, "meta": {"status": "complete"}})
        publish(folder, None if keeps else [])
        folder.give_up_room()
        names.append(folder.path.name)
    return names


@pytest.mark.parametrize("keeps", [True, False])
def test_sessions_lose_nothing_to_each_other(tmp_path: Path, keeps: bool) -> None:
    # Those that are kept begin in the same seconds, and share a name but for its number.
    seconds = [
        range(RUNS) if keeps else range(n, SESSIONS * RUNS, SESSIONS) for n in range(SESSIONS)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(SESSIONS, mp_context=context) as pool:
        futures = [pool.submit(write_runs, tmp_path, s, keeps=keeps) for s in seconds]
        names = [name for future in futures for name in future.result(WITHIN_S)]
    assert len(set(names)) == SESSIONS * RUNS
    kept = [folder.name for folder in run_folders(tmp_path)]
    if keeps:
        assert set(kept) == set(names)
    else:
        assert kept[0] == max(names)
    assert (tmp_path / "latest").resolve().name in kept
    index = (tmp_path / "index.md").read_text()
    assert all(name in index for name in kept)
    assert (tmp_path / "index.html").read_text().rstrip().endswith("</html>")
    extra = {path.name for path in tmp_path.iterdir()} - set(kept)
    assert extra == {"latest", "index.md", "index.html"}


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
    newest = run_of(tmp_path, 20)
    publish(newest, [])
    kept = {goes_on, begins, newer_format, broken, of_a_session, newest}
    assert set(run_folders(tmp_path)) == {folder.path for folder in kept}


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"meta": 1}', '{"schema_version": 6, "run": {"performance": [1]}}', "\x00"],
)
def test_the_broken_summary_of_one_run_is_no_matter_for_the_next(
    tmp_path: Path, content: str
) -> None:
    broken, own = run_of(tmp_path, 1, None), run_of(tmp_path, 2)
    broken.write_text("summary.json", content)
    publish(own, [])
    assert broken.path.is_dir()
    assert (tmp_path / "latest").resolve() == own.path
    index = (tmp_path / "index.md").read_text()
    assert broken.path.name in index and own.path.name in index


def test_latest_is_a_run_that_ended(tmp_path: Path) -> None:
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


def test_latest_can_be_set_by_two_sessions_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = run_of(tmp_path, 1), [run_of(tmp_path, 2)]
    make_link = Path.symlink_to

    def interrupted(link: Path, target: str) -> None:
        make_link(link, target)
        while others:
            others.pop().publish()

    monkeypatch.setattr(Path, "symlink_to", interrupted)
    own.publish()
    assert (tmp_path / "latest").resolve() == own.path


def test_no_other_session_writes_the_index_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def try_lock(results_dir: Path) -> None:
        descriptor = os.open(results_dir, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            tried.append("free")
        except BlockingIOError:
            tried.append("held")
        finally:
            os.close(descriptor)

    monkeypatch.setattr("mlperf_suite.reports.writing.write_index", try_lock)
    publish(run_of(tmp_path, 1), None)
    try_lock(tmp_path)
    assert tried == ["held", "free"]


def hold_lock(results_dir: Path) -> None:
    with results_lock(results_dir):
        (results_dir / "held").touch()
        time.sleep(WITHIN_S)


def test_a_stopped_session_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LOCK_S", 0.3)
    holder = multiprocessing.get_context("spawn").Process(target=hold_lock, args=(tmp_path,))
    holder.start()
    try:
        end = time.monotonic() + WITHIN_S
        while not (tmp_path / "held").exists() and time.monotonic() < end:
            time.sleep(0.01)
        assert holder.pid is not None
        os.kill(holder.pid, signal.SIGSTOP)
        own = run_of(tmp_path, 1)
        publish(own, [])
        assert (tmp_path / "latest").resolve() == own.path
        summary = read_summary(own.path)
        assert summary is not None
        assert json.loads((own.path / "summary.json").read_text())["meta"]["status"] == "complete"
    finally:
        holder.kill()
        holder.join()
