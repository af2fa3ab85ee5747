"""The reading thread: what it reads, and that whatever a counter does it comes to its end."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from mlperf_suite.energy import recording
from mlperf_suite.energy.meters import Counter
from mlperf_suite.energy.recording import MeterReader, Recording


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
    assert enough.wait(10)
    return recorder.stop()


def test_each_reading_has_its_time_in_order() -> None:
    values = itertools.count(1)
    recording = record(counter(lambda: float(next(values))))
    first, last = recording.series
    assert list(first.values) == [float(i + 1) for i in range(len(first.values))]
    assert len(last.values) >= 5
    assert list(first.times_s) == sorted(first.times_s)
    assert not recording.hangs and recording.busy_s > 0


def test_there_is_a_reading_before_start_and_after_stop_come_back() -> None:
    recorder = MeterReader([counter(lambda: 1.0)], interval_s=3600)
    recorder.start()
    (series,) = recorder.stop().series
    assert len(series.values) == 2


def test_start_comes_back_after_the_first_reading() -> None:
    read: list[float] = []

    def slow() -> float:
        time.sleep(0.05)
        read.append(1.0)
        return 1.0

    recorder = MeterReader([counter(slow)], interval_s=3600)
    recorder.start()
    assert read == [1.0]
    recorder.stop()


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


def test_a_counter_that_gives_no_number_is_one_that_fails() -> None:
    (first, _) = record(counter(lambda: "much")).series  # type: ignore[arg-type, return-value]
    assert len(first.values) == 0 and "ValueError" in first.failure


def test_a_counter_that_never_answers_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "STOP_S", 0.05)
    answers = threading.Event()

    def hangs() -> float:
        answers.wait(10)
        return 1.0

    recorder = MeterReader([counter(hangs)])
    try:
        recorder.start()
        rest = recorder.stop()
        assert rest.hangs and len(rest.series[0].values) == 0
    finally:
        answers.set()
