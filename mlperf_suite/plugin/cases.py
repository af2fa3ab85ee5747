"""Parametrizes tests with the benchmarks and scenarios of the runs that their fixtures stand for.

A test that requests `server_run` gets one case for each benchmark that has Server, and so on. A
test named after a rule (test_ttft_limit) only gets cases that the rule applies to. A test without
any case in this session gets `Missing` instead; `selection` deselects it and says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import SCENARIOS, Benchmark, Scenario
from mlperf_suite.benchmarks.registry import runnable
from mlperf_suite.loadgen.load_plan import AUDIT_MODES, CACHING
from mlperf_suite.plugin.baseline_gate import baselines_of
from mlperf_suite.plugin.benchmark_clock import LoadGenClock
from mlperf_suite.plugin.existing_logs import judged_of, log_cases
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.plugin.workers import shares_of
from mlperf_suite.results.baseline import MMLU_KIND
from mlperf_suite.results.record import RunKey
from mlperf_suite.results.regression import metrics_of, samples_of
from mlperf_suite.rules import RULES, rules_for
from mlperf_suite.session.plan import MMLU, SearchKey, StepKey
from mlperf_suite.settings import Settings

RUNS: dict[str, tuple[Mode, tuple[str, ...]]] = {
    "offline_run": ("performance", ("Offline",)),
    "server_run": ("performance", ("Server",)),
    "interactive_run": ("performance", ("Interactive",)),
    "singlestream_run": ("performance", ("SingleStream",)),
    "accuracy_run": ("accuracy", SCENARIOS),
    **{f"{mode}_run": (mode, SCENARIOS) for mode in AUDIT_MODES},
    # The audit is about the engine and its model, so that one scenario is enough.
    f"{CACHING}_run": (CACHING, ("Offline",)),
}
"""By fixture, the mode and the scenarios of its runs."""
_COMPARED: dict[str, Mode] = {"performance_change": "performance", "score_change": "accuracy"}
_OF_MMLU = ("mmlu_run", "mmlu_share", "mmlu_change")


@dataclass(frozen=True, slots=True)
class Missing:
    """A placeholder for a case: `what` the test is (singular, plural) and `why` it has no case."""

    what: tuple[str, str]
    why: str


@dataclass(frozen=True, slots=True)
class MetricCase:
    """A metric of a run that is compared with the baseline's."""

    key: RunKey
    metric: str


def step_of(item: pytest.Item) -> StepKey | None:
    """The step that must be made before the test can judge it; None if it needs no step."""
    for value in _parameters(item):
        if isinstance(value, RunKey | SearchKey):
            return value
        if isinstance(value, MetricCase):
            return value.key
    names = getattr(item, "fixturenames", ())
    return MMLU if any(name in names for name in _OF_MMLU) else None


def is_share(item: pytest.Item) -> bool:
    """Whether a test is for a share of MMLU that a worker of pytest-xdist scores."""
    return "mmlu_share" in getattr(item, "fixturenames", ())


def missing_of(item: pytest.Item) -> Missing | None:
    """Why a test has no case, None if it has one."""
    return next((value for value in _parameters(item) if isinstance(value, Missing)), None)


def _parameters(item: pytest.Item) -> Iterable[Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params.values() if callspec else ()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = set(metafunc.fixturenames)
    for name, (mode, scenarios) in RUNS.items():
        if name in asked:
            _parametrize_run(metafunc, name, mode, scenarios)
    for name, mode in _COMPARED.items():
        if name in asked:
            _parametrize(metafunc, name, _changes(metafunc.config, mode), _REGRESSION)
    if "peak_search" in asked:
        _parametrize(
            metafunc,
            "peak_search",
            _searches(metafunc.config),
            ("rate search", "rate searches", ""),
        )
    if "benchmarked_run" in asked:
        has = metafunc.config.pluginmanager.hasplugin("benchmark")
        profiled = settings_of(metafunc.config).profile_run is not None
        cases = _benchmarked(metafunc.config) if has and not profiled else []
        _parametrize(metafunc, "benchmarked_run", cases, _NO_RECORD if profiled else _RECORD)
    if "mmlu_change" in asked and MMLU_KIND not in baselines_of(metafunc.config):
        _parametrize(metafunc, "mmlu_change", [], _REGRESSION)
    if "mmlu_share" in asked:
        shares = shares_of(metafunc.config)
        _parametrize(metafunc, "mmlu_share", range(1, shares.count if shares else 1), SHARE)
    if "log_verdict" in asked:
        judged = judged_of(metafunc.config)
        _parametrize(metafunc, "log_verdict", log_cases(judged or []), _OF_LOGS)


_Words = tuple[str, str, str]
_REGRESSION: _Words = ("regression test", "regression tests", "no --baseline of it")
_RECORD: _Words = ("benchmark record", "benchmark records", "no pytest-benchmark")
_NO_RECORD: _Words = (*_RECORD[:2], "--profile-run makes no result")
SHARE: _Words = ("test of MMLU's shares", "tests of MMLU's shares", "one engine")
_OF_LOGS: _Words = ("test of logs", "tests of logs", "no --logs")


def _parametrize(
    metafunc: pytest.Metafunc, name: str, cases: Iterable[object], words: _Words
) -> None:
    missing = pytest.param(Missing(words[:2], words[2]), id="none")
    metafunc.parametrize(name, [*cases] or [missing], indirect=True)


def _case(
    value: object, benchmark: Benchmark, scenario: Scenario, last: str = "", *marks: Any
) -> Any:
    """A case with the marks for its category and scenario."""
    return pytest.param(
        value,
        marks=[
            getattr(pytest.mark, benchmark.category),
            getattr(pytest.mark, scenario.marker),
            *marks,
        ],
        id="-".join(filter(None, (benchmark.id, scenario.marker, last))),
    )


def scenarios_of(config: pytest.Config, mode: Mode) -> Iterator[tuple[Benchmark, Scenario]]:
    """Each scenario that can run in a mode, of named benchmarks and of those on by default.

    Cases for every benchmark would slow down collection for users who run one.
    """
    named = settings_of(config).named_benchmarks
    offered = [b for b in runnable() if b.by_default or b.id in named]
    if mode == CACHING:
        offered = _first_of_each_model(settings_of(config), offered)
    for benchmark in offered:
        if mode not in AUDIT_MODES or benchmark.audit(mode) is not None:
            for scenario in benchmark.scenarios:
                yield benchmark, scenario


def _first_of_each_model(settings: Settings, offered: Iterable[Benchmark]) -> list[Benchmark]:
    """The first selected benchmark of each model; the others would audit the same model again."""
    found: dict[str, Benchmark] = {}
    for benchmark in offered:
        in_category = settings.category in (None, benchmark.category)
        named = not settings.named_benchmarks or benchmark.id in settings.named_benchmarks
        if in_category and named:
            found.setdefault(settings.workload(benchmark).model, benchmark)
    return list(found.values())


def _parametrize_run(
    metafunc: pytest.Metafunc, name: str, mode: Mode, scenarios: tuple[str, ...]
) -> None:
    rule = metafunc.function.__name__.removeprefix("test_")
    is_rule = any(one.name == rule for one in RULES)
    places = [
        (benchmark, scenario, rules_for(benchmark, scenario, mode))
        for benchmark, scenario in scenarios_of(metafunc.config, mode)
        if scenario.name in scenarios
    ]
    if not places:
        words = (f"test of {mode.upper()}", f"tests of {mode.upper()}", "of another benchmark")
        _parametrize(metafunc, name, [], words)
        return
    if "metric" in metafunc.fixturenames:
        by_metric = [
            _scored(RunKey(benchmark.id, scenario.name, mode), benchmark, scenario, one.metric)
            for benchmark, scenario, rules in places
            for one in rules
            if one.metric
        ]
        metafunc.parametrize((name, "metric"), by_metric, indirect=[name])
        return
    cases = [
        _run_case(benchmark, scenario, mode, alone=len(scenarios) == 1)
        for benchmark, scenario, rules in places
        if not is_rule or any(one.name == rule for one in rules)
    ]
    metafunc.parametrize(name, cases, indirect=True, scope="session")


def _scored(key: RunKey, benchmark: Benchmark, scenario: Scenario, metric: str) -> Any:
    case = _case(key, benchmark, scenario, f"accuracy_{metric.lower()}")
    return pytest.param(key, metric, marks=case.marks, id=case.id)


def _run_case(benchmark: Benchmark, scenario: Scenario, mode: Mode, *, alone: bool) -> Any:
    """A case for a run. `alone`: the test is for this scenario only, as its file says."""
    if mode == CACHING:
        # No category or scenario marks, so that a selection by them does not include the audit.
        return pytest.param(RunKey(benchmark.id, scenario.name, mode), id=benchmark.id)
    case = _case(RunKey(benchmark.id, scenario.name, mode), benchmark, scenario)
    return pytest.param(*case.values, marks=case.marks, id=benchmark.id) if alone else case


def _searches(config: pytest.Config) -> Iterator[Any]:
    """The scenarios with latency limits, which thus have a highest rate within them."""
    for benchmark, scenario in scenarios_of(config, "performance"):
        if scenario.limits is not None:
            yield _case(SearchKey(benchmark.id, scenario.name), benchmark, scenario)


def _benchmarked(config: pytest.Config) -> Iterator[Any]:
    for benchmark, scenario in scenarios_of(config, "performance"):
        group = f"{benchmark.id} {scenario.name}"
        mark = pytest.mark.benchmark(timer=LoadGenClock(), group=group)
        key = RunKey(benchmark.id, scenario.name, "performance")
        yield _case(key, benchmark, scenario, "", mark)


def _changes(config: pytest.Config, mode: Mode) -> Iterator[Any]:
    """The metrics for which a baseline has figures."""
    for benchmark, scenario in scenarios_of(config, mode):
        baseline = baselines_of(config).get((benchmark.id, scenario.name))
        for metric in metrics_of([baseline.summary]) if baseline else ():
            if baseline and metric.mode == mode and samples_of(metric, baseline.summary):
                key = RunKey(benchmark.id, scenario.name, mode)
                yield _case(MetricCase(key, metric.name), benchmark, scenario, metric.name)
