"""The search for the highest valid rate: on systems of a known rate, in sessions, in reports."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from pytest import MonkeyPatch

from meta_tests.features.peak_search.known_systems import search_rates, system, trial
from meta_tests.made_runs import remote_run
from meta_tests.plugin.pytest_output import collect, reasons, usage_error
from meta_tests.reports.outputs import markdown_rows, page_rows, reports_of
from meta_tests.session.scripted_session import (
    LLAMA,
    Make,
    RemoteScriptedEngine,
    check_made_as_planned,
)
from meta_tests.suite_runs import run_suite
from mlperf_suite.features.peak_search.figures import (
    BY_CLIENT,
    UNBOUNDED,
    PeakFigures,
    PeakSearch,
    RateTrial,
    SearchPart,
    peak_of,
)
from mlperf_suite.features.peak_search.kind import SearchKey
from mlperf_suite.features.peak_search.rate_search import (
    MAX_FULL_RUNS,
    MAX_SHORT_RUNS,
    RESOLUTION,
    _trial_line,
    find_peak,
)
from mlperf_suite.features.peak_search.report import REPORT, plot_peak
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.results.schema import Meta, Summary

KEY = SearchKey(LLAMA, "Server")
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
    plot_peak(PeakSearch(trials, None), limits, "a title", tmp_path / "b.png")
    assert not [t for t in figures[1].axes[0].get_legend_handles_labels()[1] if "queries/s" in t]


def test_the_rate_by_goodput_is_the_highest_whose_requests_kept_both_limits() -> None:
    rates = {1.0: 1.0, 2.0: 0.995, 3.0: 0.99, 4.0: 0.9899, 5.0: None}
    trials = [replace(trial(rate, False, rate < 2), goodput=of) for rate, of in rates.items()]
    assert PeakSearch(tuple(trials), 1.0).figures.goodput_qps == 3.0
    assert PeakSearch(tuple(trials[3:]), 1.0).figures.goodput_qps is None


def test_the_steps_made_are_those_planned(
    make: Make, short: None, monkeypatch: MonkeyPatch
) -> None:
    search_rates(monkeypatch, 2)
    keys = RunKey(LLAMA, "Server", "performance"), SearchKey(LLAMA, "Interactive")
    check_made_as_planned(make(*keys, repeat="2"), *keys)


def test_a_rate_that_its_client_limited_is_invalid(make: Make, monkeypatch: MonkeyPatch) -> None:
    search_rates(monkeypatch, 2)
    remote_runs = (remote_run(), remote_run(busy_share=0.95))
    monkeypatch.setattr(RemoteScriptedEngine, "remote_runs", remote_runs)
    session = make(KEY, kind=RemoteScriptedEngine, server_target_qps="200")
    assert session.suite.make(KEY).ok
    search = session.recorder.outcome(KEY)
    assert [(t.valid, t.client_bound) for t in search.trials] == [(True, False), (False, True)]
    assert search.trials[1].why == "client-bound; a client process used 95% of a core"
    assert search.words == f"at least 200 queries/s: {BY_CLIENT}"
    assert peak_of(session.recorder.summary(session.recorder.results[0])) == search.figures


@pytest.mark.parametrize("why", ["", "speculative decoding (ngram)"])
def test_rates_of_other_generation(make: Make, monkeypatch: MonkeyPatch, why: str) -> None:
    search_rates(monkeypatch, 1)
    settings = {"speculative": {"method": "ngram"}} if why else {}
    # A smoke run may have shorter answers.
    options = {"server_target_qps": "200", "max_new_tokens": "16"}
    session = make(KEY, engine_settings=settings, **options)
    assert session.suite.make(KEY).ok
    (trial,) = session.recorder.outcome(KEY).trials
    assert (trial.valid, trial.why) == (not why, why)


def test_a_search_that_failed_says_so_and_one_without_a_valid_rate_is_invalid() -> None:
    failed = SearchPart(failure="interrupted").summed_up(Summary())
    assert failed.meta.reason == "peak search: interrupted"
    parts = [SearchPart(), *(SearchPart(PeakSearch((), rate)) for rate in (None, 3.5))]
    assert [part.complete for part in parts] == [False, True, True]
    assert [part.spoiled for part in parts] == [False, True, False]
    assert PeakSearch((), None).words.startswith("no rate was VALID")
    (line,) = REPORT.closing(Summary(parts={"peak": PeakFigures(None, runs=3)}))
    assert line.text.startswith("No rate was VALID in 3 runs")


@pytest.mark.parametrize("note", ["", UNBOUNDED, BY_CLIENT])
def test_a_search_is_in_every_report_with_what_bounds_it(note: str) -> None:
    """A rate above which none failed, or only because of the client, is a lower bound."""
    peak = PeakFigures(372.5, bounded=not note, runs=13, client_bound=note == BY_CLIENT)
    summary = Summary(meta=Meta(status="complete"), parts={"peak": peak})
    text, page = reports_of(summary)
    rate = f"at least 372.50: {note}" if note else "372.50"
    for rows in (markdown_rows(text), page_rows(page)):
        assert ["highest valid rate, queries/s", rate] in rows
    (line,) = (line.text for line in REPORT.closing(summary))
    assert line.startswith(f"Highest valid rate: {'at least ' if note else ''}372.5 ")
    assert note in line


SEARCHES = ("mlperf_suite/features/peak_search/tests", "-m", "server")


def test_a_search_is_selected_by_its_option() -> None:
    assert "2 rate searches (no --find-peak-qps)" in reasons(collect())
    nothing = "no --find-peak-qps: leaves nothing to run of 'server'"
    assert nothing in usage_error(*SEARCHES)
    no_search = usage_error("-m", "offline", "--find-peak-qps")
    assert "--find-peak-qps: no search is among" in no_search


def test_a_search_that_died_says_failed_and_why(tmp_path: Path) -> None:
    stand_in = json.dumps({"load_error": "the GPU is on fire"})
    search = (*SEARCHES, "--find-peak-qps", "-p", "meta_tests.stand_in_plugin")
    # With the rate told, no Offline run is made before it.
    run = run_suite(tmp_path, *search, "--server-target-qps=80", STAND_IN=stand_in)
    assert run.exit_code != 0 and "the GPU is on fire" in run.output
    meta = run.summary.meta
    assert (meta.status, meta.reason) == ("failed", "the GPU is on fire")
