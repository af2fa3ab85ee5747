"""A run's folder: its name, and which older ones it takes the place of."""

import json
import resource
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.errors import UsageError
from mlperf_suite.reports.writing import publish, write_reports
from mlperf_suite.results import run_folder as folder_module
from mlperf_suite.results.baseline import load_baseline
from mlperf_suite.results.run_folder import (
    RESERVED_FILE,
    RunFolder,
    changed_since_run,
    read_config,
    read_entries,
    read_summary,
    results_lock,
    run_folders,
    summary_fault,
    write_json,
    write_json_list,
)
from mlperf_suite.results.schema import Meta, PerformanceFigures, Run, Summary

NOW = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
KINDS = (
    "llama3.1-8b-offline",
    "llama3.1-8b-edge-offline",
    "llama3.1-8b-interactive",
    "llama2-70b-99.9-offline",
)


def test_a_folder_is_called_by_its_time_benchmark_and_scenario(tmp_path: Path) -> None:
    first, two = (RunFolder(tmp_path, "llama3.1-8b", "Offline", NOW) for _ in range(2))
    assert first.path.name == "20261120-101500-llama3.1-8b-offline"
    assert two.path.name == "20261120-101500-llama3.1-8b-offline-2"
    for foreign in ("notes", "20261120-my-notes", "20261120-101500", "20261120-101500-my-notes"):
        (tmp_path / foreign).mkdir()
    (tmp_path / "20261120-101500-offline-copy").mkdir()
    assert set(run_folders(tmp_path)) == {first.path, two.path}


def test_only_runs_of_exactly_this_kind_are_dropped(tmp_path: Path) -> None:
    for kind in KINDS:
        (tmp_path / f"20261119-101500-{kind}").mkdir()
        summary = tmp_path / f"20261119-101500-{kind}" / "summary.json"
        write_json(summary, {"schema_version": 6, "meta": {"status": "complete"}})
    rest = {f"20261119-101500-{kind}" for kind in KINDS}
    for own in ("llama3.1-8b-offline", "llama3.1-8b-edge-offline"):
        folder = RunFolder(tmp_path, own.removesuffix("-offline"), "Offline", NOW)
        folder.drop_older()
        rest = rest - {f"20261119-101500-{own}"} | {folder.path.name}
        assert {path.name for path in run_folders(tmp_path)} == rest


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000])
def test_a_file_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    for name in ("summary.json", "config.json"):
        (tmp_path / name).write_text(text)
    assert (read_summary(tmp_path), read_config(tmp_path)) == (None, None)
    (tmp_path / "summary.json").write_text(json.dumps({"meta": {"model": "m"}}))
    summary = read_summary(tmp_path)
    assert summary is not None
    assert (summary.meta.model, summary_fault(tmp_path)) == ("m", "")


@pytest.mark.parametrize("version", [5, "6", None])
def test_a_summary_of_another_version_is_one_clear_line(tmp_path: Path, version: object) -> None:
    folder = tmp_path / "20261120-101500-llama3.1-8b-offline"
    folder.mkdir()
    content = {"schema_version": version, "meta": {"status": "complete"}}
    (folder / "summary.json").write_text(json.dumps(content))
    fault = f"format version {version}, and this suite reads version 6"
    assert read_summary(folder) is None
    faults = [summary_fault(folder), *(entry.fault for entry in read_entries(tmp_path))]
    assert faults == [f"summary.json has {fault}"] * 2
    for read in (load_baseline, write_reports):
        with pytest.raises(UsageError, match=f"{folder}: summary.json has {fault}$"):
            read(folder)


def test_a_list_written_by_entry_is_the_file_that_is_written_at_once(tmp_path: Path) -> None:
    lists: list[list[Any]] = [[], [None], [{"a\u2028b": ["\x85\n", 3]}, '"', {}, "é"]]
    for number, entries in enumerate(lists):
        whole, by_entry = tmp_path / f"{number}.json", tmp_path / f"{number}-by-entry.json"
        write_json(whole, {"answers": entries})
        write_json_list(by_entry, "answers", iter(entries))
        assert by_entry.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("answer", ["it is 12345678.", 12345678])
def test_a_secret_in_one_entry_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    """Nor one that is a number, without which the entry is no JSON."""
    monkeypatch.setattr("mlperf_suite.secrets._secrets", {"12345678"})
    entries = [{"answer": "Hm."}, {"answer": answer}]
    write_json_list(tmp_path / "answers.json", "answers", entries)
    text = (tmp_path / "answers.json").read_text()
    assert "12345678" not in text and json.loads(text)["answers"][0] == {"answer": "Hm."}
    assert all(line.strip() for line in text.splitlines())


def test_the_verdicts_of_a_second_audit_are_no_change_and_its_scores_are_evidence(
    tmp_path: Path,
) -> None:
    folder = RunFolder(tmp_path, "llama3.1-8b", "Offline", NOW)
    folder.write("config.json", {})
    scores = folder.log_folder("test07") / "rouge.json"
    scores.parent.mkdir(parents=True)
    verdicts = folder.compliance / "verdicts.json"
    for words in ("[1]", "[1, 2]"):
        verdicts.write_text(words)
        scores.write_text('{"exact_match": 70}')
        folder.record_checksums()
        assert changed_since_run(folder.path) == []
    scores.write_text('{"exact_match": 60}')
    verdicts.write_text("[3]")
    assert changed_since_run(folder.path) == [
        "Compliance/TEST07/rouge.json was changed after the run",
        "Compliance/verdicts.json was changed after the run",
    ]


def test_a_last_word_takes_the_room_kept_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path, "llama3.1-8b", "Offline", NOW)
    room = folder.path / RESERVED_FILE
    assert room.stat().st_size == room.stat().st_blocks * 512 == 16 * 1024
    figures = Run(performance=PerformanceFigures(valid=True))
    running = Summary(meta=Meta(status="running"), run=figures, logs=("x" * 9000,))
    folder.write("summary.json", running.as_json())
    last = replace(running, meta=Meta(status="failed", reason="disk full"))

    folder.last_word(last)
    assert not room.exists()
    assert read_summary(folder.path) == last

    # Where even that finds no room beside the earlier one, over it.
    monkeypatch.setattr(folder_module, "write_json", no_room)
    folder.last_word(last)
    brief = read_summary(folder.path)
    assert brief is not None and (brief.meta, brief.logs) == (last.meta, ())
    assert {path.name for path in folder.path.iterdir()} == {"summary.json"}


def no_room(path: Path, content: object) -> None:
    raise OSError(28, "No space left on device")


def test_half_a_file_is_no_file(tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", {"a": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, before[1]))
    try:
        with pytest.raises(OSError, match=r"summary\.json'$"):
            write_json(tmp_path / "summary.json", {"a": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
    assert json.loads((tmp_path / "summary.json").read_bytes()) == {"a": 1}


# Several sessions that write to one results folder at the same time.
#
# Processes that really do are in evidence/shared_results_folder.


def test_the_tenth_run_of_a_second_is_newer_than_the_second(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path, "llama3.1-8b", "Offline", NOW).path for _ in range(11)]
    assert run_folders(tmp_path) == folders[::-1]


def test_runs_are_in_the_order_of_instants_whatever_the_clock_of_each_said(tmp_path: Path) -> None:
    """As where clocks go back, and where a container beside the host has another time zone."""
    starts = ["2026-10-25T02:50:00+02:00", "2026-10-25T02:10:00+01:00", "2026-10-25T01:20:00+00:00"]
    folders = []
    for start in starts:
        folder = RunFolder(tmp_path, "llama3.1-8b", "Offline", datetime.fromisoformat(start))
        folder.write("summary.json", {"schema_version": 6, "meta": {"started": start}})
        folders.append(folder.path)
    assert folders != sorted(folders)
    assert run_folders(tmp_path) == folders[::-1]


def run_of(results_dir: Path, hour: int, status: str | None = "complete") -> RunFolder:
    """A run that ended, or with a status of its own; None: without a summary."""
    folder = RunFolder(results_dir, "llama3.1-8b", "Offline", NOW.replace(hour=hour))
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
