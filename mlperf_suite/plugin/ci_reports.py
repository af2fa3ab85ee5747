"""Reports for CI: JUnit properties, pytest-benchmark's records."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mlperf_suite.plugin.cases import LoadGenClock, step_of
from mlperf_suite.plugin.lifecycle import SUITE
from mlperf_suite.plugin.outcomes import VERDICT, summary_of
from mlperf_suite.session.run_kind import kind_of

if TYPE_CHECKING:
    from mlperf_suite.results.schema import Meta, Summary
    from mlperf_suite.session.executor import Session
    from mlperf_suite.session.run_kind import StepKey

_BENCHMARK_COLUMNS = ("mean", "stddev", "ops", "rounds")
"""The columns of pytest-benchmark's table; all of them would need more than 80 columns."""
_META = (
    *("run_name", "benchmark", "category", "scenario", "model", "dataset"),
    *("round", "profile", "label"),
)
_VERSIONS = ("vllm_version", "loadgen_version", "torch_version", "python_version", "cpu", "gpus")
_RATES = ("tokens_per_sec", "samples_per_sec", "qps")
_TIMES = ("latency_ms", "ttft_ms", "tpot_ms")
_RECORD = pytest.StashKey[Callable[[str, object], None]]()


# A run as flat names and values


def _suite_properties(meta: Meta, system: Mapping[str, object]) -> dict[str, str]:
    """The same for every test of a session: model, round, profile, versions, hardware."""
    facts: dict[str, object] = {name: getattr(meta, name) for name in _META}
    facts |= {name: system.get(name) for name in _VERSIONS}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in facts.items()
        if value not in (None, [])
    }


def metrics(summary: Summary, mode: str) -> dict[str, float]:
    """The figures of one mode's run: mean rates per second, times in ms, scores in their unit.

    Percentiles are named like `ttft_ms_p99`; figures that the run does not have are left out.
    `latency_ms_early_stopping` is early stopping's estimate of the percentile that the scenario is
    judged at, `ttft_more_queries` the number of additional queries that a Server run would have
    needed.
    """
    run, figures = summary.run, dict[str, float | None]()
    performance = run.performance if mode == "performance" else None
    if performance is not None:
        figures |= {name: performance.mean(name) for name in _RATES}
        figures["duration_s"] = performance.duration_s
        figures["total_new_tokens"] = performance.total_new_tokens
        for times in _TIMES:
            percentiles = getattr(performance, times) or {}
            figures |= {f"{times}_{name}": value for name, value in percentiles.items()}
        if early := performance.early_stopping:
            figures |= {f"{n}_ms_early_stopping": v for n, v in early.estimates_ms.items()}
            figures |= {f"{n}_more_queries": v for n, v in early.more_queries.items()}
    elif mode == "accuracy" and run.accuracy is not None:
        figures |= {score.name: score.value for score in run.accuracy.scores}
    return {name: value for name, value in figures.items() if value is not None}


# Of every test


def judged_run(item: pytest.Item) -> StepKey | None:
    """The run with verdicts of its own that a test asks for; None if it asks for none."""
    step = step_of(item)
    return step if step is not None and kind_of(step).is_run else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Add the verdict and the figures of its run to a test after the call, when they are made."""
    try:
        return (yield)
    finally:
        suite, key = item.config.stash.get(SUITE, None), judged_run(item)
        if verdict := item.stash.get(VERDICT, None):
            for name in ("found", "required", "why"):
                item.user_properties.append((name, getattr(verdict, name)))
        if suite and key and suite.recorder.has_begun(key):
            summary = suite.recorder.summary(suite.recorder.result_of(key))
            item.user_properties.extend(metrics(summary, key.mode).items())


# JUnit


@pytest.fixture(scope="session", autouse=True)
def _record_property(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> None:
    """Keep what records a property of JUnit's suite, which only a fixture gets."""
    pytestconfig.stash[_RECORD] = request.getfixturevalue("record_testsuite_property")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Before JUnit's file is written."""
    suite, record = session.config.stash.get(SUITE, None), session.config.stash.get(_RECORD, None)
    if suite is not None and record is not None and session.config.getoption("xmlpath"):
        for name, value in session_properties(suite).items():
            record(name, value)


def session_properties(suite: Session) -> dict[str, str]:
    """Of a session that ends: what became of each result, its settings, its versions."""
    from mlperf_suite.hardware import describe_system
    from mlperf_suite.reports.headline import headline
    from mlperf_suite.results.schema import Meta

    # A result whose session was interrupted says so now.
    suite.close()
    settings = suite.settings
    meta = Meta(model=settings.model, dataset=settings.dataset)
    meta = replace(meta, round=settings.round.name, profile=settings.profile)
    summaries = map(suite.recorder.summary, suite.recorder.results)
    ends = {summary.meta.title: headline(summary) for summary in summaries}
    return ends | _suite_properties(meta, describe_system())


# pytest-benchmark


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set the columns of pytest-benchmark's table before it reads its options, unless given; show
    no table unless one of them is given: its times are the inverse of a rate, no latencies."""
    if getattr(config.option, "benchmark_columns", ()) is None:
        config.option.benchmark_columns = list(_BENCHMARK_COLUMNS)
        of_environment = shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
        arguments = (*config.invocation_params.args, *config.getini("addopts"), *of_environment)
        if not any(str(argument).startswith("--benchmark-") for argument in arguments):
            config.option.benchmark_quiet = True


@pytest.fixture
def benchmarked_run(request: pytest.FixtureRequest, benchmark: Any, suite: Session) -> float:
    """Register the performance run: each round is a run, its time that of one sample.

    OPS in pytest-benchmark is then samples/s, and lower times are better, as its users expect.
    Returns the first run's samples/s.
    """
    key: StepKey = request.param.key
    summary = summary_of(request.config, key, "benchmark")
    performance = summary.run.performance
    if performance is None or not performance.samples_per_sec:
        pytest.skip("LoadGen reported no rate")
    clock: LoadGenClock = request.node.get_closest_marker("benchmark").kwargs["timer"]
    rates = [run.samples_per_sec for run in (performance, *performance.repeats)]
    seconds = [1 / rate for rate in rates if rate]
    to_come = iter(seconds)

    def go_on() -> None:
        clock.now_s += next(to_come)

    benchmark.extra_info.update(_suite_properties(summary.meta, summary.system))
    benchmark.extra_info.update(metrics(summary, "performance"))
    benchmark.extra_info["valid"] = performance.valid
    benchmark.pedantic(go_on, rounds=len(seconds))
    return float(performance.samples_per_sec)
