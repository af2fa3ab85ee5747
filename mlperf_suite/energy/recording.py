"""A thread that reads counters a few times a second.

The thread shares nothing with the run except the clock: it takes no lock of the engine or of
LoadGen, and the run goes on whatever happens to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from mlperf_suite.energy.meters import Counter, Recording, Series

INTERVAL_S = 0.25
"""Time between readings: NVML updates its counter about ten times a second, RAPL a thousand."""
STOP_S = 2.0
"""How long to wait for a counter at the end; a driver in trouble may never answer."""


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
        return Recording(tuple(map(Series.copy, self._series)), self._busy_s, hangs)

    def _read_on(self) -> None:
        self._read_each()
        self._begun.set()
        while not self._ended.wait(self._interval_s):
            self._read_each()
        self._read_each()

    def _read_each(self) -> None:
        for series in self._series:
            series.read()
        self._busy_s = time.thread_time()
