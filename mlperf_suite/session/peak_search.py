"""Finds the highest Server rate whose run is VALID.

Searches in short runs, then confirms at full length. Pure: the caller tries each rate.
The number of runs is bounded (`MAX_RUNS`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from mlperf_suite.results.peak import PeakSearch, RateTrial

MAX_SHORT_RUNS = 12
MAX_FULL_RUNS = 4
MAX_RUNS = MAX_SHORT_RUNS + MAX_FULL_RUNS
RESOLUTION = 1.05
"""The search ends when the lowest failed rate is within this factor of the highest that held."""
_MOST_STEPS_DOWN = 5
"""The maximum number of short runs that only step down: far below the rate asked for, a run takes
hours, since each sends all samples."""
_STEP = 1.25
"""The factor of the first step up or down; each further step is wider by it, to get far in few
runs."""


Try = Callable[[float, bool], RateTrial]


def find_peak(attempt: Try, start_qps: float) -> PeakSearch:
    """Search from `start_qps`. `attempt(rate, full_length)` makes one run.

    Short runs step up as long as any are left, or down a few times, until one rate holds and
    another fails. They then halve the gap between the two (as a ratio) down to RESOLUTION. The rate
    that failed is tried once more, since a disturbance of the machine can fail a run as well. The
    highest rate that held is confirmed at full length, stepping down by RESOLUTION each time that
    fails.
    """
    trials: list[RateTrial] = []

    def holds(rate: float, *, full: bool) -> bool:
        trial = attempt(_rounded(rate), full)
        trials.append(trial)
        return trial.valid

    held, failed = 0.0, Counter[float]()
    rate: float | None = start_qps
    while rate is not None and len(trials) < MAX_SHORT_RUNS:
        if holds(rate, full=False):
            held = max(held, rate)
        else:
            failed[rate] += 1
        rate = _next_rate(held, failed, len(trials))
    rate = held
    for _ in range(MAX_FULL_RUNS if rate else 0):
        if holds(rate, full=True):
            return PeakSearch(tuple(trials), _rounded(rate))
        rate /= RESOLUTION
    return PeakSearch(tuple(trials), None)


def _next_rate(held: float, failed: Counter[float], made: int) -> float | None:
    """The rate to try next, None if the search is over, after `made` runs.

    `held`: the highest rate that held, 0 if none did. `failed`: how often each rate failed.
    """
    if not held:
        return min(failed) / _STEP**made if made < _MOST_STEPS_DOWN else None
    if not failed:
        return held * _STEP**made
    above = [rate for rate in failed if rate > held]
    if not above:
        return held * _STEP
    lowest = min(above)
    if lowest / held > RESOLUTION:
        return math.sqrt(held * lowest)
    tried_once = failed[lowest] == 1
    return lowest if tried_once else None


def _rounded(rate: float) -> float:
    """The rate with four significant digits: LoadGen logs six, and closer rates do not differ
    measurably."""
    return float(f"{rate:.4g}")
