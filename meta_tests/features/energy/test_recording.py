"""The reading thread, which comes to its end whatever a counter does; and from readings to joules:
wrap-arounds, resets, counters that stand still, gaps, dead readers."""

import itertools
import math
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from mlperf_suite.energy import Counter, MeterReader, Recording, Series, UnmeasuredError
from mlperf_suite.features.energy.energy_figures import joules_by, trace_of


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, each thread has its turn."""
    monkeypatch.setattr("mlperf_suite.energy.STOP_S", 300.0)


def counter(read: Callable[[], float], name: str = "GPU 0") -> Counter:
    return Counter(name, "GPU", "label", read)


def record(*counters: Counter, readings: int = 5) -> Recording:
    """What is read until the last of them was asked so often."""
    enough = threading.Event()
    count = itertools.count(1)

    def last() -> float:
        if next(count) >= readings:
            enough.set()
        return 1.0

    recorder = MeterReader([*counters, counter(last, "the last")], interval_s=0.001)
    recorder.start()
    assert enough.wait(300)
    return recorder.stop()


def test_there_is_a_reading_before_start_and_after_stop_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[float] = []
    is_awaited = threading.Event()

    def slow() -> float:
        assert is_awaited.wait(300)
        is_awaited.clear()
        read.append(1.0)
        return 1.0

    def awaited(wait: Callable[[float], object], limit_s: float) -> object:
        is_awaited.set()
        return wait(limit_s)

    recorder = MeterReader([counter(slow)], interval_s=3600)
    for thing, name in ((recorder._begun, "wait"), (recorder._thread, "join")):
        monkeypatch.setattr(thing, name, partial(awaited, getattr(thing, name)))
    recorder.start()
    assert read == [1.0]
    recording = recorder.stop()
    (series,) = recording.series
    assert list(series.values) == read == [1.0, 1.0]
    assert list(series.times_s) == sorted(series.times_s)
    assert not recording.hangs and recording.busy_s > 0


def test_a_counter_that_fails_is_asked_again_and_the_others_go_on() -> None:
    answers = iter([1.0, 2.0])

    def fail() -> float:
        for value in answers:
            return value
        raise RuntimeError("GPU is lost")

    first, second = record(counter(fail), readings=6).series
    assert (list(first.values), first.failure) == ([1.0, 2.0], "RuntimeError: GPU is lost")
    assert (len(second.values) >= 6, second.failure) == (True, "")
    back: Iterator[OSError | float] = iter([OSError("busy"), 5.0])

    def comes_back() -> float:
        value = next(back, 6.0)
        if isinstance(value, Exception):
            raise value
        return value

    first, _ = record(counter(comes_back)).series
    assert (first.values[:2].tolist(), first.failure) == ([5.0, 6.0], "")
    no_number: Any = "much"
    first, _ = record(counter(lambda: no_number)).series
    assert len(first.values) == 0 and "ValueError" in first.failure


def test_a_counter_that_never_answers_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlperf_suite.energy.STOP_S", 0.05)
    answers = threading.Event()

    def hangs() -> float:
        answers.wait()
        return 1.0

    recorder = MeterReader([counter(hangs)])
    try:
        recorder.start()
        rest = recorder.stop()
        assert rest.hangs and len(rest.series[0].values) == 0
    finally:
        answers.set()


# Joules


RANGE_J = 262_143.328850
"""As Intel's packages have it."""


def series(
    values: Sequence[float], times: Sequence[float] | None = None, **fields: object
) -> Series:
    """Readings a quarter of a second apart, from a second before the run on."""
    counter = Counter("GPU 0", "GPU", "label", lambda: 0.0, **fields)  # type: ignore[arg-type]
    at = times if times is not None else [99.0 + i / 4 for i in range(len(values))]
    return Series(counter, array("d", at), array("d", values))


def joules(readings: Series, begin: float = 100.0, end: float = 110.0) -> float:
    trace = trace_of(readings, begin, end)
    first, last = joules_by([trace], [begin, end])
    return last - first


def why_not(readings: Series, begin: float = 100.0, end: float = 110.0) -> str:
    with pytest.raises(UnmeasuredError) as caught:
        trace_of(readings, begin, end)
    return str(caught.value)


STEADY = [1000.0 + 50 * i for i in range(50)]
"""200 W."""


def test_a_steady_counter_is_its_power_times_the_time() -> None:
    assert joules(series(STEADY)) == pytest.approx(2000)
    assert joules(series(STEADY), 101.1, 101.2) == pytest.approx(20)
    # What was drawn before the run and after it, 100 W, is not the run's.
    times = [98.9 + i * 0.2 for i in range(70)]
    drawn = [100 * at + 200 * min(max(at - 100.0, 0.0), 10.0) for at in times]
    assert joules(series(drawn, times)) == pytest.approx(3000, rel=0.02)


def test_a_counter_that_was_reset_is_known_from_one_that_began_again() -> None:
    values = [*STEADY[:20], *(value - STEADY[20] for value in STEADY[20:])]
    assert why_not(series(values)) == "it was reset: 1,950.0 J, then 0.0"
    assert why_not(series(values, range_j=RANGE_J)).startswith("it was reset")
    # So near its end that what it would have counted is what a CPU may draw.
    near = [RANGE_J - 200.0 + value - 1000 for value in STEADY]
    assert joules(series([v % RANGE_J for v in near], range_j=RANGE_J)) == pytest.approx(2000)


def test_a_gap_in_which_it_may_have_begun_again_is_no_measurement() -> None:
    times = [99.0, *(300.0 + i / 4 for i in range(49))]
    readings = series(STEADY, times, range_j=RANGE_J)
    assert "not read for 201.0 s" in why_not(readings, end=305.0)
    assert joules(series(STEADY, times), end=305.0) > 0


def test_a_counter_that_stands_still_is_no_measurement() -> None:
    assert "stood still for the whole run" in why_not(series([0.0] * 50))
    values = [float(i if not 10 <= i < 40 else 10) for i in range(50)]
    assert "stood still for 7.2 s of 10.0 s" in why_not(series(values))
    steps = series([0.0] * 8 + [500.0] * 8, [99.0 + i / 4 for i in range(16)])
    assert "shorter than the counter's step" in why_not(steps, 101.3, 101.5)


def test_a_power_draw_is_summed_up_by_the_trapezoidal_rule() -> None:
    times = [99.0 + i / 4 for i in range(50)]
    readings = series([100 + 10 * (at - 100) for at in times], times, gives="power")
    assert joules(readings) == pytest.approx(1500)
    gap_times = [at if at < 103 else at + 6 for at in times]
    assert "not read for 6.2 s" in why_not(series([100.0] * 50, gap_times, gives="power"))
    assert "below 0" in why_not(series([-1.0] * 50, gives="power"))

    no_power = "its power draw was 0 for the whole run"
    # What was drawn before the run and after it is not the run's.
    assert why_not(series([5.0] * 3 + [0.0] * 43 + [5.0] * 4, gives="power")) == no_power
    assert joules(series([0.0] * 20 + [8.0] + [0.0] * 29, gives="power")) == pytest.approx(2)


def test_readings_must_cover_the_run() -> None:
    short = series(STEADY[:30])
    short.failure = "NVMLError: GPU is lost"
    assert why_not(short) == "no reading after 6.2 s of 10.0 s: NVMLError: GPU is lost"
    assert "not read while the run went" in why_not(series(STEADY), 98.0)
    assert "not read while the run went" in why_not(series(STEADY[:2]))
    empty = series([])
    empty.failure = "PermissionError: energy_uj"
    assert why_not(empty) == "it was never read: PermissionError: energy_uj"
    assert "other than a number" in why_not(series([*STEADY[:-1], math.nan]))
