"""The watch on the system's clock, by clocks that a test sets; LoadGen keeps the real one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from meta_tests.loadgen.made_plans import ScriptedEngine, a_plan, run
from mlperf_suite.engines.protocol import Listener, Request
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen import clock_watch, runner
from mlperf_suite.loadgen.clock_watch import ClockFigures, ClockWatch, clock_faults
from mlperf_suite.loadgen.logs import DETAIL, RunLogs, read_logs


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
