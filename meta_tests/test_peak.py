"""The search for the highest valid rate, on systems whose highest rate is known."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.table import TokenLimits
from mlperf_suite.loadgen.peak import MAX_FULL_RUNS, MAX_RUNS, RESOLUTION, RateTrial, find_peak
from mlperf_suite.reports.plots import plot_peak


def trial(rate: float, full_length: bool, valid: bool) -> RateTrial:
    return RateTrial(rate, full_length, valid, rate, 100.0, 10.0)


def system(short_peak: float, full_peak: float | None = None):
    """Holds every rate up to its peak; a full-length run may hold less than a short one."""
    peaks = {False: short_peak, True: full_peak or short_peak}
    return lambda rate, full: trial(rate, full, rate <= peaks[full])


rates = st.floats(0.1, 1000)


@given(rates, st.floats(0.15, 6))
def test_it_finds_a_known_peak_to_within_its_resolution(peak: float, off: float) -> None:
    search = find_peak(system(peak), start_qps=peak * off)
    assert search.peak_qps is not None
    assert search.peak_qps <= peak * 1.001
    # The last halving may find no run left, and rates are rounded.
    assert search.peak_qps >= peak / RESOLUTION / 1.03


@given(rates, st.floats(0.01, 100))
def test_it_stops_within_its_stated_number_of_runs(peak: float, off: float) -> None:
    assert len(find_peak(system(peak), start_qps=peak * off).trials) <= MAX_RUNS


@given(rates)
def test_a_peak_was_valid_at_full_length(peak: float) -> None:
    search = find_peak(system(peak, full_peak=peak * 0.93), start_qps=peak * 0.8)
    assert search.peak_qps is not None
    confirmed = [t for t in search.trials if t.full_length and t.target_qps == search.peak_qps]
    assert [t.valid for t in confirmed] == [True]


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


def test_a_system_that_holds_no_rate_has_no_peak() -> None:
    search = find_peak(lambda rate, full: trial(rate, full, False), start_qps=10)
    assert search.peak_qps is None
    assert not any(t.full_length for t in search.trials)
    # At a hundredth of the rate, the samples of one run would take a hundred times as long.
    assert min(t.target_qps for t in search.trials) > 10 / 10


def test_a_system_that_holds_every_rate_is_not_searched_without_end() -> None:
    search = find_peak(lambda rate, full: trial(rate, full, True), start_qps=10)
    assert search.peak_qps is not None and search.peak_qps < 10 * 10


def test_a_rate_that_never_holds_at_full_length_is_no_peak() -> None:
    search = find_peak(lambda rate, full: trial(rate, full, not full), start_qps=10)
    assert search.peak_qps is None
    assert sum(t.full_length for t in search.trials) == MAX_FULL_RUNS


def test_the_plot_is_written(tmp_path: Path) -> None:
    search = find_peak(system(3.0), start_qps=2.0)
    path = tmp_path / "plots" / "peak_qps.png"
    plot_peak(search.trials, TokenLimits(2000, 100), search.peak_qps, "a <title>", path)
    assert path.read_bytes().startswith(b"\x89PNG")
