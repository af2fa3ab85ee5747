"""The times of a run's requests, read as arrays: the same as those of the whole timeline."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.judging.unreadable_files import UNREADABLE
from meta_tests.rules.damaged_text import within
from mlperf_suite.loadgen.timeline import (
    TIMELINE_JSON,
    RequestTimes,
    Timeline,
    read_request_times,
    read_timeline,
    write_timeline,
)

_MS = st.integers(0, 10**9).map(lambda micro: micro / 1000)
_ROWS = st.lists(st.tuples(_MS, _MS, _MS, st.integers(0, 3000)), min_size=1, max_size=40)


def timeline_of_rows(
    rows: list[tuple[float, float, float, int]], *, streams: bool = True
) -> Timeline:
    """Of each row when it was issued, how long to its first token and to its last, its tokens."""
    issued_ms = [row[0] for row in rows]
    first = [row[0] + row[1] for row in rows]
    finished_ms = [row[0] + row[1] + row[2] for row in rows]
    return Timeline(
        issued_ms,
        first if streams else None,
        finished_ms,
        [row[3] for row in rows],
        samples=range(len(rows)),
        prompt_tokens=[10] * len(rows),
        preempted=[0] * len(rows),
        parts_ms={"issue": [0.5] * len(rows), "tokens": [1.0] * len(rows)},
        from_loadgen=True,
    )


def same(times: RequestTimes, timeline: Timeline) -> None:
    assert times.latency_ms.tolist() == timeline.latency_ms
    for times_ms, timeline_ms in (
        (times.ttft_ms, timeline.ttft_ms),
        (times.tpot_ms, timeline.tpot_ms),
    ):
        assert (None if times_ms is None else times_ms.tolist()) == timeline_ms
    assert times.tokens == sum(timeline.tokens)
    assert len(times) == len(timeline.tokens)
    assert times.from_loadgen is timeline.from_loadgen
    assert times.latency_ms.dtype == np.float64


@given(_ROWS, st.booleans())
def test_the_times_are_those_of_the_timeline(
    rows: list[tuple[float, float, float, int]], streams: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_timeline(folder, timeline_of_rows(rows, streams=streams))
        times, timeline = read_request_times(folder), read_timeline(folder)
        assert times is not None and timeline is not None
        same(times, timeline)


ROWS = [(0.0, 50.0, 500.0, 11), (100.0, 60.0, 0.0, 1), (200.5, 70.25, 10.0, 2)]


def test_what_others_wrote_is_read(tmp_path: Path) -> None:
    # LoadGen's instants are found to a millisecond: a first token may come before its issue.
    early = dataclasses.replace(timeline_of_rows(ROWS), first_token_ms=[-0.5, 160.0, 270.75])
    write_timeline(tmp_path, early)
    assert read_request_times(tmp_path) is not None
    write_timeline(tmp_path, timeline_of_rows(ROWS))
    path, timeline = tmp_path / TIMELINE_JSON, read_timeline(tmp_path)
    text = path.read_text()
    for indent in (None, 1):
        path.write_text(json.dumps(json.loads(text), indent=indent))
        times = read_request_times(tmp_path)
        assert times is not None and timeline is not None
        same(times, timeline)
    # An older suite does not say from where it counts.
    path.write_text("".join(x for x in text.splitlines(True) if "from_loadgen" not in x))
    times = read_request_times(tmp_path)
    assert times is not None and not times.from_loadgen


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("finished_ms", "[1.0,2.0]"),
        ("finished_ms", "[1.0,2.0,NaN]"),
        ("finished_ms", "[1.0,2.0,1e999]"),
        ("finished_ms", "[1.0,2.0,[3.0]]"),
        ("finished_ms", "null"),
        ("finished_ms", "[-90000,0,0]"),
        ("issued_ms", '"0,1,2"'),
        ("first_token_ms", "[1,2,3000000]"),
        ("tokens", "[11,1,-2]"),
        ("tokens", "[11,1,2"),
        ("from_loadgen", "tru"),
    ],
)
def test_what_cannot_be_is_no_timeline(tmp_path: Path, column: str, text: str) -> None:
    write_timeline(tmp_path, timeline_of_rows(ROWS))
    path = tmp_path / TIMELINE_JSON
    lines = [
        f'"{column}":{text},\n' if line.startswith(f'"{column}"') else line for line in path.open()
    ]
    assert lines != list(path.open())
    path.write_text("".join(lines))
    assert read_request_times(tmp_path) is None
    path.write_bytes(b"\xff\x00")
    assert read_request_times(tmp_path) is None
    path.unlink()
    assert read_request_times(tmp_path) is None


READERS = pytest.mark.parametrize("read", [read_request_times, read_timeline])


@READERS
@pytest.mark.parametrize("make", UNREADABLE.values(), ids=UNREADABLE)
def test_what_never_ends_is_no_timeline(
    tmp_path: Path, read: Callable[[Path], object], make: Callable[[Path], object]
) -> None:
    make(tmp_path / TIMELINE_JSON)
    with within(60):
        assert read(tmp_path) is None


@READERS
def test_reading_takes_a_few_times_the_memory_of_the_file(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    """As Python's numbers, the columns would take ten times that of the arrays."""
    rows = [(1.5 * number, 11.125, 17.375, 100) for number in range(20_000)]
    write_timeline(tmp_path, timeline_of_rows(rows))
    read(tmp_path)
    tracemalloc.start()
    try:
        assert read(tmp_path) is not None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3.5 * (tmp_path / TIMELINE_JSON).stat().st_size
