"""The highest Server rate whose run is VALID.

A search in short runs, then confirmed at full length. Pure: how a rate is tried is the caller's.
The number of runs is bounded (`MAX_RUNS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MAX_SHORT_RUNS = 9
MAX_FULL_RUNS = 4
MAX_RUNS = MAX_SHORT_RUNS + MAX_FULL_RUNS
RESOLUTION = 1.05
"""The search ends when the lowest rate that failed is this close to the highest that held."""
_STEP = 1.25
"""The first step up or down; each further one is this much wider, to come far in few runs."""


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One run at one rate. Rates in queries/s, times in ms, None where LoadGen reported none.

    `full_length`: under the profile's own rules rather than the search's short ones.
    """

    target_qps: float
    full_length: bool
    valid: bool
    completed_qps: float | None
    ttft_p99_ms: float | None
    tpot_p99_ms: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class PeakSearch:
    """Every trial in its order. `peak_qps`: the highest rate confirmed at full length, or None."""

    trials: tuple[RateTrial, ...]
    peak_qps: float | None


Try = Callable[[float, bool], RateTrial]


def find_peak(attempt: Try, start_qps: float) -> PeakSearch:
    """Search from `start_qps`. `attempt(rate, full_length)` makes one run.

    Steps up or down until one rate holds and another fails, halves the gap between the two (as a
    ratio) down to RESOLUTION, then confirms the rate that held at full length, going down by
    RESOLUTION as often as that fails.
    """
    trials: list[RateTrial] = []

    def holds(rate: float, *, full: bool) -> bool:
        trial = attempt(_rounded(rate), full)
        trials.append(trial)
        return trial.valid

    low, high = _bracket(holds, start_qps)
    while low and high and high / low > RESOLUTION and len(trials) < MAX_SHORT_RUNS:
        middle = (low * high) ** 0.5
        if holds(middle, full=False):
            low = middle
        else:
            high = middle
    rate = low
    for _ in range(MAX_FULL_RUNS if rate else 0):
        if holds(rate, full=True):
            return PeakSearch(tuple(trials), _rounded(rate))
        rate /= RESOLUTION
    return PeakSearch(tuple(trials), None)


def _bracket(holds: Callable[..., bool], start_qps: float) -> tuple[float, float]:
    """The highest rate that held and the lowest that failed; 0 where none was found."""
    low = high = 0.0
    rate, step = start_qps, _STEP
    # Leaves at least four short runs for halving.
    for _ in range(MAX_SHORT_RUNS - 4):
        if holds(rate, full=False):
            low, rate = rate, rate * step
        else:
            high, rate = rate, rate / step
        if low and high:
            break
        step *= _STEP
    return low, high


def _rounded(rate: float) -> float:
    """Four significant digits: LoadGen logs six, and nobody can tell two closer rates apart."""
    return float(f"{rate:.4g}")
