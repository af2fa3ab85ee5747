"""Watches the clock that LoadGen counts with, beside a clock that nothing can set, during a run.

LoadGen's timer is std::chrono::high_resolution_clock, which in its published builds is the system's
clock: an administrator or a time daemon can set it. CLOCK_MONOTONIC_RAW can neither be set nor
slewed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

MAX_CLOCK_DRIFT = 0.001
"""The largest deviation between the two clocks, as a share of the elapsed time. The kernel adjusts
the system's clock by at most 0.0005 (MAXFREQ of linux/timex.h) without setting it."""
FLOOR_S = 0.002
"""A deviation that is no fault over any time, in s: LoadGen's log counts in ms."""
_TRIES = 5


@dataclass(frozen=True, slots=True)
class ClockFigures:
    """What the clocks showed between LoadGen's start and its end.

    `elapsed_s`: by CLOCK_MONOTONIC_RAW. `gain_s`: of the readings, the two between which the
    system's clock departed furthest from it beyond the limit: by how much (negative: set
    back); `allowed_s`, `begin_s`, `end_s`: the deviation allowed between these two, and when they
    were. `answering_s`: from the first query's arrival at the SUT to its last answer by
    time.monotonic; None if no times were kept.
    """

    elapsed_s: float
    gain_s: float
    allowed_s: float
    begin_s: float
    end_s: float
    answering_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    """Both clocks at the same moment, in s, but for `uncertainty_s`."""

    raw_s: float
    system_s: float
    uncertainty_s: float


def _read() -> _Reading:
    """The closest of several readings: a thread that is preempted in between reads them apart."""
    readings = []
    for _ in range(_TRIES):
        before = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        system = time.clock_gettime(time.CLOCK_REALTIME)
        after = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        readings.append(_Reading((before + after) / 2, system, (after - before) / 2))
    return min(readings, key=lambda reading: reading.uncertainty_s)


class ClockWatch:
    """Reads both clocks when it is made, at each `read`, and at the end."""

    def __init__(self) -> None:
        self._first = self._last = _read()
        self._worst = ClockFigures(0.0, 0.0, FLOOR_S, 0.0, 0.0)

    def read(self) -> None:
        """Compare the clocks since the last reading, which shows a step, and since the first."""
        reading = _read()
        for since in (self._last, self._first):
            figures = self._between(since, reading)
            if _excess_s(figures) > _excess_s(self._worst):
                self._worst = figures
        self._last = reading

    def figures(self, answering_s: float | None) -> ClockFigures:
        """The figures of the time until now; `answering_s` as in `ClockFigures`."""
        self.read()
        worst = self._worst
        return ClockFigures(
            self._last.raw_s - self._first.raw_s,
            worst.gain_s,
            worst.allowed_s,
            worst.begin_s,
            worst.end_s,
            answering_s,
        )

    def _between(self, since: _Reading, now: _Reading) -> ClockFigures:
        elapsed = now.raw_s - since.raw_s
        allowed = MAX_CLOCK_DRIFT * elapsed + FLOOR_S + since.uncertainty_s + now.uncertainty_s
        return ClockFigures(
            elapsed,
            now.system_s - since.system_s - elapsed,
            allowed,
            since.raw_s - self._first.raw_s,
            now.raw_s - self._first.raw_s,
        )


def _excess_s(figures: ClockFigures) -> float:
    return abs(figures.gain_s) - figures.allowed_s


def clock_faults(clock: ClockFigures, log_s: float | None) -> list[str]:
    """How LoadGen's clock departed from the machine's during a run, a few words each.

    `log_s`: the timestamps of LoadGen's log between the generation of the queries and the end of
    the run, in s; None if it lacks them.
    """
    faults = []
    if _excess_s(clock) > 0:
        faults.append(
            f"the system's clock gained {clock.gain_s:+,.3f} s between {clock.begin_s:,.2f} and "
            f"{clock.end_s:,.2f} s"
        )
    if log_s is None:
        return faults
    if log_s > clock.elapsed_s * (1 + MAX_CLOCK_DRIFT) + FLOOR_S:
        faults.append(f"LoadGen counted {log_s:,.3f} s in a run of {clock.elapsed_s:,.3f} s")
    answering_s = clock.answering_s or 0.0
    if log_s < answering_s * (1 - MAX_CLOCK_DRIFT) - FLOOR_S:
        faults.append(f"LoadGen counted {log_s:,.3f} s, its queries took {answering_s:,.3f} s")
    return faults
