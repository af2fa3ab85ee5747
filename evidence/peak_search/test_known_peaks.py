"""How near the search for the highest rate comes to a known one, from any start and disturbed."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.peak_search.known_systems import system, trial
from mlperf_suite.features.peak_search.figures import RateTrial
from mlperf_suite.features.peak_search.rate_search import MAX_RUNS, find_peak

rates = st.floats(0.1, 1000)


@given(rates, st.floats(2e-6, 0.15))
def test_however_low_it_starts_it_goes_on_until_a_rate_fails(peak: float, off: float) -> None:
    search = find_peak(system(peak), start_qps=peak * off)
    assert search.bounded and search.peak_qps is not None and search.peak_qps <= peak * 1.001
    # The lower the start, the wider the last step, and the fewer runs are left to halve it.
    assert search.peak_qps >= peak / (1.2 if off > 0.002 else 12)


@given(rates, st.floats(0.00000001, 6))
def test_a_peak_is_bounded_where_a_rate_above_it_failed(peak: float, off: float) -> None:
    search = find_peak(system(peak), start_qps=peak * off)
    failing_rates = [t.target_qps for t in search.trials if not t.valid]
    assert search.peak_qps is not None
    assert search.bounded == (max(failing_rates, default=0) > search.peak_qps)
    assert len(search.trials) <= MAX_RUNS


@given(rates, st.floats(0.75, 1.3), st.integers(0, 12))
def test_one_disturbed_run_moves_the_peak_by_less_than_a_tenth(
    peak: float, off: float, disturbed: int
) -> None:
    undisturbed, runs = system(peak), itertools.count()

    def attempt(rate: float, full: bool) -> RateTrial:
        fails = next(runs) == disturbed
        return trial(rate, full, False) if fails else undisturbed(rate, full)

    search = find_peak(attempt, start_qps=peak * off)
    assert search.peak_qps is not None
    assert 0.9 * peak <= search.peak_qps <= 1.001 * peak
