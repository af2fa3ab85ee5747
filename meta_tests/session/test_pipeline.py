"""The plan is what runs: the steps made are those planned, whatever was selected or fails."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

from meta_tests.session.scripted_session import ACCURACY, LLAMA, PERFORMANCE, TEST06, Make
from meta_tests.session.timing.kept_offline_run import keep_offline_run
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import default_benchmarks
from mlperf_suite.errors import RunError
from mlperf_suite.features.caching_audit.kind import CachingKey
from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.features.peak_search.figures import PeakSearch
from mlperf_suite.features.peak_search.kind import SearchKey
from mlperf_suite.features.replicas.scaling import scaling_figures
from mlperf_suite.loadgen.load_plan import RunKey, Shortened
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from mlperf_suite.results.run_folder import RESERVED_FILE, read_summary
from mlperf_suite.session.run_kind import StepKey

SERVER = RunKey(LLAMA, "Server", "performance")
SEARCH = SearchKey(LLAMA, "Interactive")
BASE_MODES: tuple[Mode, ...] = ("accuracy", "performance")
EVERY: list[StepKey] = [
    *(
        RunKey(benchmark.id, scenario.name, mode)
        for benchmark in default_benchmarks()
        for scenario in benchmark.scenarios
        for mode in (*BASE_MODES, *(audit.mode for audit in benchmark.audits))
    ),
    CachingKey(LLAMA, "Offline"),
    SEARCH,
    MMLU,
]
"""What all markers together select."""
UNORDERED: list[StepKey] = [
    RunKey(LLAMA, "Server", "accuracy"),
    MMLU,
    TEST06,
    PERFORMANCE,
    ACCURACY,
]
"""Runs on both sides of MMLU, whose engine takes the place of theirs."""
OPTIONS: dict[str, Any] = {"warmup": "1", "mmlu_limit": "4"}


@pytest.fixture(autouse=True)
def short(monkeypatch: MonkeyPatch) -> None:
    """Runs of a tenth of a second, and searches of two rates."""

    def two_rates(attempt: Callable[..., Any], start_qps: float) -> PeakSearch:
        return PeakSearch((attempt(start_qps, False), attempt(start_qps, False)), start_qps)

    runs = {name: Shortened(100, 1, samples=4) for name in ("Offline", "Server", "SingleStream")}
    monkeypatch.setattr("mlperf_suite.session.scenario_runs.SMOKE", runs)
    monkeypatch.setattr("mlperf_suite.session.timing.estimate.SMOKE", runs)
    monkeypatch.setattr(
        "mlperf_suite.features.peak_search.rate_search.SHORT", {True: Shortened(100, 1)}
    )
    monkeypatch.setattr("mlperf_suite.features.peak_search.rate_search.find_peak", two_rates)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (EVERY, {}),
        ([SERVER, SEARCH], {"repeat": "2", "energy": "off", "warmup": "0"}),
        ([SERVER], {"server_target_qps": "50", "replicas": "2", "scaling": True}),
        ([CachingKey(LLAMA, "Offline")], {}),
        ([MMLU], {}),
    ],
    ids=["every marker", "Server's rate", "scaling", "caching", "MMLU"],
)
def test_the_steps_made_are_those_planned(
    make: Make, monkeypatch: MonkeyPatch, keys: list[StepKey], options: dict[str, Any]
) -> None:
    figures = scaling_figures(2, [(100.0, 190.0)] * 5)
    monkeypatch.setattr(
        "mlperf_suite.features.replicas.scaling.measure_scaling", lambda *arguments: figures
    )
    suite = make(*keys, **(OPTIONS | options)).suite
    plan = suite.plan
    for key in sorted(keys, key=plan.order_of):
        outcome = suite.make(key)
        assert outcome.ok, outcome.failure
    assert suite.plan == plan
    assert suite.steps_made == list(plan.steps)
    for result in suite.recorder.results:
        rows = [row for row in suite.recorder.summary(result).plan if "MMLU" not in row.what]
        assert all(row.took_s is not None for row in rows)


def test_whatever_the_order_of_the_tests_every_planned_step_is_made_once(make: Make) -> None:
    session = make(*UNORDERED, **OPTIONS)
    suite = session.suite
    for key in UNORDERED:
        assert suite.make(key).ok
    assert session.loaded == ["runs", "scoring", "runs"]
    assert [engine.alive for engine in session.engines] == [False, False, True]
    own = [step for step in suite.steps_made if step.key is not None]
    assert len(own) == len(set(own))
    assert set(suite.steps_made) == set(suite.plan.steps)


@pytest.mark.parametrize("error", [RunError("died"), ValueError("nobody foresaw it")])
def test_a_failed_step_takes_later_ones(make: Make, monkeypatch: MonkeyPatch, error: Any) -> None:
    """Steps of other keys are made; what the failed run would have shown is measured instead."""

    def run(*arguments: Any, **keywords: Any) -> LoadRun:
        if arguments[0].mode == "accuracy":
            raise error
        return run_loadgen(*arguments, **keywords)

    monkeypatch.setattr("mlperf_suite.session.load_run.run_loadgen", run)
    suite = make(ACCURACY, PERFORMANCE, TEST06, **OPTIONS).suite
    with contextlib.suppress(ValueError):
        suite.make(ACCURACY)
    assert [suite.make(key).ok for key in (ACCURACY, PERFORMANCE, TEST06)] == [False, False, True]
    left_out = [step for step in suite.plan.steps if step not in suite.steps_made]
    assert {(step.kind, step.key) for step in left_out} == {
        ("run", ACCURACY),
        ("warm-up", PERFORMANCE),
        ("run", PERFORMANCE),
    }
    assert [step.kind for step in suite.steps_made].count("rate") == 1
    assert set(suite.steps_made) <= set(suite.plan.steps)


def test_an_offline_run_joins_where_no_kept_rate_is_its_own(make: Make, tmp_path: Path) -> None:
    keep_offline_run(tmp_path / "results", **OPTIONS)
    suite = make(SERVER, **OPTIONS).suite
    assert suite.plan.runs == (SERVER,)
    assert suite.make(SERVER).ok
    assert suite.plan.implicit_runs == {PERFORMANCE}
    assert sorted(map(str, suite.steps_made)) == sorted(map(str, suite.plan.steps))


def test_where_the_run_that_joins_fails_so_does_the_other(make: Make, tmp_path: Path) -> None:
    keep_offline_run(tmp_path / "results", **OPTIONS)
    suite = make(SERVER, dies_in=str(PERFORMANCE), **OPTIONS).suite
    assert suite.make(SERVER).failure == f"{SERVER}: {PERFORMANCE}: died as told"


# What could not be written says so: each result has room for its last word


@pytest.mark.parametrize("at", ["writing.write_reports", "writing.write_index"])
def test_a_run_not_written_says_so(make: Make, monkeypatch: MonkeyPatch, at: str) -> None:
    session = make(ACCURACY)
    assert session.suite.make(ACCURACY).ok
    result = session.recorder.results[0]
    assert (session.folder / RESERVED_FILE).stat().st_size == 16 * 1024
    monkeypatch.setattr(f"mlperf_suite.reports.{at}", full_disk)
    with pytest.raises(OSError):
        session.recorder.write(result)
    assert told(session.folder) == ("failed", f"not everything could be written: {FULL}")


FULL = "report.html: No space left on device"


def full_disk(*arguments: object) -> None:
    raise OSError(28, "No space left on device", "report.html")


def told(folder: Path) -> tuple[str, str | None]:
    assert not (folder / RESERVED_FILE).exists()
    summary = read_summary(folder)
    assert summary is not None
    return summary.meta.status, summary.meta.reason


def test_mmlu_that_cannot_be_written_says_so_as_well(make: Make, monkeypatch: MonkeyPatch) -> None:
    session = make(MMLU)
    # What cannot be written first of all keeps the run from being made.
    monkeypatch.setattr("mlperf_suite.reports.writing.markdown_text", full_disk)
    assert session.suite.make(MMLU).failure == f"MMLU: {FULL}"
    status, reason = told(session.recorder.result_of(MMLU).folder.path)
    assert status == "failed" and FULL in (reason or "")
    assert not session.suite.can_go_on
