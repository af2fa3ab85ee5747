"""The times of a run's requests, read as arrays."""

import dataclasses
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.judging.unreadable_files import UNREADABLE, within
from meta_tests.loadgen.made_plans import ScriptedEngine, a_plan, run
from mlperf_suite.engines.protocol import Listener, Request
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen import clock_watch, runner
from mlperf_suite.loadgen.clock_watch import ClockFigures, ClockWatch, clock_faults
from mlperf_suite.loadgen.logs import DETAIL, RunLogs, read_logs
from mlperf_suite.loadgen.timeline import TIMELINE_JSON, Timeline, read_timeline, write_timeline

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


@given(_ROWS, st.booleans())
def test_the_times_are_those_of_the_rows(
    rows: list[tuple[float, float, float, int]], streams: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_timeline(Path(name), timeline_of_rows(rows, streams=streams))
        timeline = read_timeline(Path(name))
    assert timeline is not None and timeline.times.are_possible
    assert timeline.latency_ms == [(a + b + c) - a for a, b, c, _ in rows]
    assert timeline.ttft_ms == ([(a + b) - a for a, b, *_ in rows] if streams else None)
    tpot = [((a + b + c) - (a + b)) / (n - 1) for a, b, c, n in rows if n > 1]
    assert timeline.tpot_ms == (tpot if streams else None)
    assert np.isnan(timeline.times.ttft_ms).all() is np.bool_(not streams)


ROWS = [(0.0, 50.0, 500.0, 11), (100.0, 60.0, 0.0, 1), (200.5, 70.25, 10.0, 2)]


def test_what_others_wrote_is_read(tmp_path: Path) -> None:
    # LoadGen's instants are found to a millisecond: a first token may come before its issue.
    early = dataclasses.replace(timeline_of_rows(ROWS), first_token_ms=[-0.5, 160.0, 270.75])
    assert early.times.are_possible
    write_timeline(tmp_path, timeline_of_rows(ROWS))
    path, timeline = tmp_path / TIMELINE_JSON, read_timeline(tmp_path)
    text = path.read_text()
    for indent in (None, 1):
        path.write_text(json.dumps(json.loads(text), indent=indent))
        assert read_timeline(tmp_path) == timeline is not None
    # An older suite does not say from where it counts.
    path.write_text("".join(x for x in text.splitlines(True) if "from_loadgen" not in x))
    times = read_timeline(tmp_path)
    assert times is not None and not times.from_loadgen


@pytest.mark.parametrize(
    ("column", "text"),
    [
        *(("finished_ms", f"[1.0,2.0{third}]") for third in ("", ",NaN", ",1e999", ",[3.0]")),
        *(("finished_ms", text) for text in ("null", "[-90000,0,0]")),
        ("issued_ms", '"0,1,2"'),
        ("issued_ms", "[1e300,1,2]"),
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
    timeline = read_timeline(tmp_path)
    assert timeline is None or not timeline.times.are_possible
    path.write_bytes(b"\xff\x00")
    assert read_timeline(tmp_path) is None
    path.unlink()
    assert read_timeline(tmp_path) is None


@pytest.mark.parametrize("make", UNREADABLE.values(), ids=UNREADABLE)
def test_what_never_ends_is_no_timeline(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / TIMELINE_JSON)
    with within(60):
        assert read_timeline(tmp_path) is None


# The watch on the system's clock, by clocks that a test sets; LoadGen keeps the real one


class Clocks:
    """In the place of the module `time`: the system's clock departs from the machine's."""

    CLOCK_REALTIME, CLOCK_MONOTONIC_RAW = time.CLOCK_REALTIME, time.CLOCK_MONOTONIC_RAW

    def __init__(self, *, stands: bool = True) -> None:
        """`stands`: time passes by `pass_s` alone, otherwise as it does."""
        self._stands = stands
        self._raw_s = 100.0
        self.departure_s = 0.0

    def pass_s(self, seconds: float) -> None:
        self._raw_s += seconds

    def clock_gettime(self, clock: int) -> float:
        raw_s = self._raw_s
        if not self._stands:
            raw_s += time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        return raw_s + self.departure_s if clock == self.CLOCK_REALTIME else raw_s


@pytest.mark.parametrize(
    ("step_s", "rate", "between"),
    [
        (0.0, 0.0, ""),
        (0.0025, 0.0, ""),
        (0.0, -0.0009, ""),
        (-0.5, 0.0, "-0.500 s between 2.00 and 3.00 s"),
        (0.5, 0.0, "+0.500 s between 2.00 and 3.00 s"),
        # Less in each second than is allowed, and more in all.
        (0.0, 0.002, "+0.012 s between 0.00 and 6.00 s"),
    ],
)
def test_a_clock_that_is_set_or_goes_at_another_rate_is_noticed(
    monkeypatch: pytest.MonkeyPatch, step_s: float, rate: float, between: str
) -> None:
    clocks = Clocks()
    monkeypatch.setattr(clock_watch, "time", clocks)
    watch = ClockWatch()
    for second in range(6):
        clocks.pass_s(1.0)
        clocks.departure_s += rate + (step_s if second == 2 else 0.0)
        if second < 5:
            watch.read()
    figures = watch.figures(None)
    assert figures.elapsed_s == pytest.approx(6.0)
    assert clock_faults(figures, 6.0) == (
        [f"the system's clock gained {between}"] if between else []
    )


def test_a_run_tells_of_a_clock_that_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of the real LoadGen during which the clock that is watched is set."""
    clocks = Clocks(stands=False)
    monkeypatch.setattr(clock_watch, "time", clocks)

    def script(requests: list[Request], listener: Listener) -> None:
        clocks.departure_s -= 60.0
        listener.finished([(request.tag, [1]) for request in requests])

    (fault,) = run(a_plan(), ScriptedEngine(script), tmp_path / "told").logs.clock_faults
    assert fault.startswith("the system's clock gained -60.")

    def damaged(folder: Path) -> RunLogs:
        # As LoadGen's may then be.
        with (folder / DETAIL).open("a") as file:
            file.write(':::MLLOG {"key": "result_samples_per_second", "value": inf}\n')
        return read_logs(folder)

    monkeypatch.setattr(runner, "read_logs", damaged)
    with pytest.raises(RunError, match=r"the log is damaged: .+; the system's clock gained -60"):
        run(a_plan(), ScriptedEngine(script), tmp_path / "damaged")


RIGHT = ClockFigures(10.0, 0.0, 0.012, 0.0, 10.0, answering_s=9.0)


@pytest.mark.parametrize(
    ("log_s", "faults"),
    [
        *((log_s, []) for log_s in (8.99, 10.01, None)),
        (10.02, ["LoadGen counted 10.020 s in a run of 10.000 s"]),
        (8.98, ["LoadGen counted 8.980 s, its queries took 9.000 s"]),
    ],
)
def test_time_stamps_are_between_the_answers_and_the_run(
    log_s: float | None, faults: list[str]
) -> None:
    assert clock_faults(RIGHT, log_s) == faults
