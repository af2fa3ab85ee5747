"""Several processes that write to one results folder at the same time."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mlperf_suite.reports.writing import publish
from mlperf_suite.results.run_folder import RunFolder, run_folders

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


def ended(results_dir: Path, hour: int) -> RunFolder:
    folder = RunFolder(results_dir, "mmlu", None, NOW.replace(hour=hour))
    folder.write("summary.json", {"schema_version": 6, "meta": {"status": "complete"}})
    return folder


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


def test_latest_can_be_set_by_two_sessions_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = ended(tmp_path, 1), [ended(tmp_path, 2)]
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
    publish(ended(tmp_path, 1), None)
    try_lock(tmp_path)
    assert tried == ["held", "free"]
