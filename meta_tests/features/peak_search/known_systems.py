"""Systems whose highest rate is known, and searches of few rates."""

from collections.abc import Callable
from typing import Any

from pytest import MonkeyPatch

from mlperf_suite.features.peak_search.figures import PeakSearch, RateTrial
from mlperf_suite.loadgen.load_plan import Shortened


def trial(rate: float, full_length: bool, valid: bool) -> RateTrial:
    return RateTrial(rate, full_length, valid, rate, 100.0, 10.0)


def system(short_peak: float, full_peak: float | None = None) -> Callable[[float, bool], RateTrial]:
    """Holds every rate up to its peak; a full-length run may hold less than a short one."""
    peaks = {False: short_peak, True: full_peak or short_peak}
    return lambda rate, full: trial(rate, full, rate <= peaks[full])


def search_rates(monkeypatch: MonkeyPatch, count: int) -> None:
    """Let a search try this many times the start's rate, each for a tenth of a second."""

    def find_peak(attempt: Callable[..., Any], start_qps: float) -> PeakSearch:
        trials = (attempt(factor * start_qps, False) for factor in range(1, count + 1))
        return PeakSearch(tuple(trials), start_qps)

    trial = {True: Shortened(100, 64, latency_percent=90)}
    monkeypatch.setattr("mlperf_suite.features.peak_search.rate_search.SHORT", trial)
    monkeypatch.setattr("mlperf_suite.features.peak_search.rate_search.find_peak", find_peak)
