"""The search for the highest valid rate, on systems whose highest rate is known."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from pytest import MonkeyPatch

from meta_tests.features.peak_search.known_systems import system, trial
from mlperf_suite.features.peak_search.figures import BY_CLIENT, UNBOUNDED, PeakSearch, RateTrial
from mlperf_suite.features.peak_search.rate_search import (
    MAX_FULL_RUNS,
    MAX_SHORT_RUNS,
    RESOLUTION,
    _trial_line,
    find_peak,
)
from mlperf_suite.features.peak_search.report import plot_peak

rates = st.floats(0.1, 1000)


@given(rates, st.floats(0.15, 6))
def test_it_finds_a_known_peak_to_within_its_resolution(peak: float, off: float) -> None:
    search = find_peak(system(peak), start_qps=peak * off)
    assert search.peak_qps is not None
    assert search.peak_qps <= peak * 1.001
    # The last halving may find no run left, and rates are rounded.
    assert search.peak_qps >= peak / RESOLUTION / 1.03
    assert search.bounded


def test_a_system_that_holds_no_rate_has_no_peak() -> None:
    search = find_peak(lambda rate, full: trial(rate, full, False), start_qps=10)
    assert search.peak_qps is None and not search.bounded
    assert not any(t.full_length for t in search.trials)
    # At a hundredth of the rate, the samples of one run would take a hundred times as long.
    assert min(t.target_qps for t in search.trials) > 10 / 10
    search = find_peak(lambda rate, full: trial(rate, full, not full), start_qps=10)
    assert search.peak_qps is None, "none at full length"
    assert sum(t.full_length for t in search.trials) == MAX_FULL_RUNS


def test_a_low_start_and_a_first_run_that_is_disturbed_are_overcome() -> None:
    search, runs = find_peak(system(1000.0), start_qps=1.0), itertools.count()
    assert search.bounded and search.peak_qps and 1000 / 12 <= search.peak_qps <= 1001
    search = find_peak(lambda r, full: trial(r, full, next(runs) > 0 and r <= 10), start_qps=9)
    assert search.peak_qps and 9 <= search.peak_qps <= 10.01


def test_a_system_that_holds_every_rate_is_not_searched_without_end() -> None:
    search = find_peak(lambda rate, full: trial(rate, full, True), start_qps=10)
    assert [t.full_length for t in search.trials] == [False] * MAX_SHORT_RUNS + [True]
    # It is the highest that was tried, and nothing says that it is the highest there is.
    assert search.peak_qps == max(t.target_qps for t in search.trials)
    assert not search.bounded
    assert search.words.endswith(UNBOUNDED) and search.words.startswith("at least ")


@pytest.mark.parametrize(("by_server", "bounded"), [(False, False), (True, True)])
def test_a_peak_that_only_the_client_ended_is_at_least(by_server: bool, bounded: bool) -> None:
    client_trial = replace(trial(3.2, True, False), client_bound=True)
    failures = [client_trial, *([trial(3.3, True, False)] if by_server else [])]
    search = PeakSearch((trial(3.0, True, True), *failures), 3.0)
    assert search.bounded is bounded
    words = "peak 3 queries/s" if bounded else f"at least 3 queries/s: {BY_CLIENT}"
    assert search.words == words


@pytest.mark.parametrize("bounded", [True, False])
def test_a_plot_of_the_least_rate(tmp_path: Path, monkeypatch: MonkeyPatch, bounded: bool) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: figures.append(figure))
    by_latency = RateTrial(3.0, True, True, 3.0, None, None, latency_p99_ms=900.0)
    assert "VALID, latency p99 900.0 ms" in _trial_line(by_latency, 1)
    trials = (by_latency, *([trial(3.2, True, False)] if bounded else []))
    limits = {"latency": 12_000, "ttft": 2000, "tpot": 100}
    plot_peak(PeakSearch(trials, 3.0), limits, "a title", tmp_path / "a.png")
    (figure,) = figures
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert ("peak 3 queries/s" if bounded else "at least 3 queries/s") in labels
    assert (UNBOUNDED in figure.get_suptitle()) is not bounded


def test_the_rate_by_goodput_is_the_highest_whose_requests_kept_both_limits() -> None:
    rates = {1.0: 1.0, 2.0: 0.995, 3.0: 0.99, 4.0: 0.9899, 5.0: None}
    trials = [replace(trial(rate, False, rate < 2), goodput=of) for rate, of in rates.items()]
    assert PeakSearch(tuple(trials), 1.0).figures.goodput_qps == 3.0
    assert PeakSearch(tuple(trials[3:]), 1.0).figures.goodput_qps is None
