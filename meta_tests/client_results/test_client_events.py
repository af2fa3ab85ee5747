"""events.jsonl of the official HTTP client: counted as its aggregator counts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mlperf_suite.client_results.client_events import RunEvents, read_events

Event = tuple[int, str, str]
START: Event = (10, "session.start_performance_tracking", "")
STOP: Event = (90, "session.stop_performance_tracking", "")


def read(folder: Path, *events: Event) -> RunEvents:
    lines = [
        {"event_type": kind, "timestamp_ns": at_ns, "sample_uuid": uuid}
        for at_ns, kind, uuid in events
    ]
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    counted, problem = read_events(path)
    assert counted is not None, problem
    return counted


def test_requests_between_start_and_stop_count_though_they_end_later(tmp_path: Path) -> None:
    counted = read(
        tmp_path,
        (1, "sample.issued", "before"),
        START,
        (12, "sample.issued", "a"),
        (15, "sample.complete", "before"),
        (20, "sample.recv_first", "a"),
        STOP,
        (91, "sample.issued", "after"),
        (95, "sample.complete", "after"),
        (99, "sample.complete", "a"),
    )
    assert (counted.issued, counted.completed) == (1, 1)
    assert counted.ttft.tolist() == [8]
    assert counted.latency.tolist() == [87]
    assert (counted.duration_ns, counted.window_ns) == (89, 87)


def test_the_window_ends_with_the_request_that_was_issued_last(tmp_path: Path) -> None:
    counted = read(
        tmp_path,
        START,
        (11, "sample.issued", "a"),
        (12, "sample.issued", "b"),
        (13, "sample.issued", "never ends"),
        (50, "sample.complete", "b"),
        (80, "sample.complete", "a"),
    )
    assert (counted.duration_ns, counted.window_ns) == (70, 39)
    assert (counted.issued, counted.completed) == (3, 2)


def test_a_request_that_is_issued_again_counts_from_then_on(tmp_path: Path) -> None:
    counted = read(
        tmp_path,
        START,
        (11, "sample.issued", "a"),
        (20, "sample.recv_first", "a"),
        (30, "sample.issued", "a"),
        (40, "sample.recv_first", "a"),
        (50, "sample.complete", "a"),
        (60, "sample.complete", "a"),
    )
    assert (counted.issued, counted.completed) == (2, 1)
    assert counted.ttft.tolist() == [9, 10]
    assert counted.latency.tolist() == [20]
    assert counted.window_ns == 39


def test_each_start_of_tracking_is_a_block_of_its_own(tmp_path: Path) -> None:
    again, needless = ((at, "session.start_performance_tracking", "") for at in (100, 105))
    of_a = (11, "sample.issued", "a"), (30, "sample.complete", "a")
    of_b = (110, "sample.issued", "b"), (130, "error.client", "b"), (130, "sample.complete", "b")
    counted = read(tmp_path, START, *of_a, STOP, again, needless, *of_b)
    assert counted.duration_ns == 20 + 30
    assert counted.failed == 1


def test_nothing_counts_once_the_session_ended(tmp_path: Path) -> None:
    end = (12, "session.ended", "")
    assert read(tmp_path, START, end, (13, "sample.issued", "a")) == read(tmp_path, START)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "[]",
        "\n",
        '{"event_type": "sample.issued", "timestamp_ns": -1}',
        '{"event_type": "sample.issued", "timestamp_ns": 1e400}',
        '{"event_type": "sample.issued", "timestamp_ns": true}',
        '{"event_type": 1, "timestamp_ns": 1}',
        '{"event_type": "\udcff", "timestamp_ns": 1}',
        '{"a": ' + '{"a": ' * 100_000,
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert read_events(path) == (None, "events.jsonl: line 1 is no event")


def test_a_fifo_and_a_folder_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    for path in (tmp_path / "events.jsonl", tmp_path):
        counted, problem = read_events(path)
        assert counted is None
        assert problem.startswith(f"{path.name} cannot be read: ")
