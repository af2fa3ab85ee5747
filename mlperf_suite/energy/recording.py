"""A thread that reads counters a few times a second, and its readings.

The thread shares nothing with the run except the clock: it takes no lock of the engine or of
LoadGen, and the run goes on whatever happens to it.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlperf_suite.energy.meters import Counter

INTERVAL_S = 0.25
"""Time between readings: NVML updates its counter about ten times a second, RAPL a thousand."""
STOP_S = 2.0
"""How long to wait for a counter at the end; a driver in trouble may never answer."""


@dataclass(slots=True)
class Series:
    """One counter's readings: `times_s` of time.monotonic, `values` in J or W.

    `failure`: what the counter raised at its last reading; empty if it answered.
    """

    counter: Counter
    times_s: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """The readings. `busy_s`: CPU time of the reading thread, in s. `hangs`: whether a counter did
    not answer at the end, so that its thread was left behind."""

    series: tuple[Series, ...]
    busy_s: float = 0.0
    hangs: bool = False


class MeterReader:
    """Reads each counter every `interval_s` from `start` to `stop`, and once at each of them."""

    def __init__(self, counters: Sequence[Counter], interval_s: float = INTERVAL_S) -> None:
        self._series = tuple(map(Series, counters))
        self._interval_s = interval_s
        self._begun, self._ended = threading.Event(), threading.Event()
        self._busy_s = 0.0
        self._thread = threading.Thread(target=self._read_on, name="energy", daemon=True)

    def start(self) -> None:
        """Return once each counter was read, or did not answer in time."""
        self._thread.start()
        self._begun.wait(STOP_S)

    def stop(self) -> Recording:
        """Read a last time and end; do nothing if the thread never started. Returns whatever the
        counters do."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        hangs = self._thread.is_alive()
        # If the thread goes on, only what it has read by now.
        return Recording(tuple(map(_copied, self._series)), self._busy_s, hangs)

    def _read_on(self) -> None:
        self._read_each()
        self._begun.set()
        while not self._ended.wait(self._interval_s):
            self._read_each()
        self._read_each()

    def _read_each(self) -> None:
        for series in self._series:
            _read(series)
        self._busy_s = time.thread_time()


def _copied(series: Series) -> Series:
    whole = min(len(series.times_s), len(series.values))
    times, values = series.times_s[:whole], series.values[:whole]
    return Series(series.counter, times, values, series.failure)


def _read(series: Series) -> None:
    """Add a reading; if the counter fails, try again next time."""
    start_s = time.monotonic()
    try:
        value = float(series.counter.read())
    except Exception as error:
        series.failure = f"{type(error).__name__}: {error}"
        return
    series.failure = ""
    # The middle of the call: a slow counter was read at some time within it.
    series.times_s.append((start_s + time.monotonic()) / 2)
    series.values.append(value)
