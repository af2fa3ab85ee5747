"""Gives each test its cases: the runs, searches, metrics or verdicts that its fixture stands for.

A test that requests `server_run` gets one case for each benchmark that has Server, and so on. A
test named after a rule (test_ttft_limit) only gets the runs that the rule applies to. A case has
the marks of its run, so that -m selects it. A test without any case in this session gets `NoCase`
instead; `selection` deselects it and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pytest
from packaging.version import Version

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS, runnable
from mlperf_suite.benchmarks.definition import SCENARIOS, Benchmark, Scenario
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.plugin.baseline_gate import baselines_of
from mlperf_suite.plugin.existing_logs import judged_of, log_cases
from mlperf_suite.plugin.options import settings_of
from mlperf_suite.rules import rules_for
from mlperf_suite.rules.registry import Rule, rule_named
from mlperf_suite.session.companion import profile_of
from mlperf_suite.session.run_kind import (
    OTHER_BENCHMARK,
    NoCase,
    StepKey,
    kind_named,
    kind_of,
    run_kinds,
)
from mlperf_suite.settings import Settings


@dataclass(frozen=True, slots=True)
class RunsOfFixture:
    """The runs of a fixture: these modes in these scenarios."""

    modes: tuple[Mode, ...]
    scenarios: tuple[str, ...] = SCENARIOS


_RULES = pytest.StashKey[dict[tuple[str, str, str], dict[str, Rule]]]()
RUNS_OF_FIXTURES: dict[str, RunsOfFixture] = {}
"""By fixture; `fixtures/runs.py` fills it."""


REGRESSION = NoCase(("regression test", "regression tests"), "no --baseline for it")
RECORD = NoCase(("benchmark record", "benchmark records"), "no pytest-benchmark 5.3.1 or newer")
PROFILED = NoCase(RECORD.kind, "--profile-run makes no result")
LOGS = NoCase(("test of logs", "tests of logs"), "no --logs")


@dataclass(frozen=True, slots=True)
class Case:
    """What a test is asked about: a key of the session."""

    key: StepKey

    @property
    def mode(self) -> Mode:
        """Whose options select it."""
        return self.key.mode

    def why_not_beside(self, steps: Iterable[StepKey]) -> NoCase | None:
        """Why its test does not run in a session that makes these steps; None if it does."""
        return None


@dataclass(frozen=True, slots=True)
class MetricCase(Case):
    """A metric of a run, or of a part of a result, that is compared with the baseline's."""

    metric: str


def step_of(item: pytest.Item) -> StepKey | None:
    """The first of a test's steps, the only one of the suite's own tests; None if it has none."""
    return next(iter(steps_of(item)), None)


def steps_of(item: pytest.Item) -> list[StepKey]:
    """The steps that must be made before a test can judge them, in the order of its fixtures."""
    return [case.key for case in cases_of(item)]


def cases_of(item: pytest.Item) -> list[Case]:
    """What a test is asked about, in the order of its fixtures."""
    return [value for value in _parameters(item) if isinstance(value, Case)]


def asks_for_engine(item: pytest.Item) -> bool:
    """Whether a test asks for the engine itself."""
    return {"engine", "suite"} <= set(getattr(item, "fixturenames", ()))


def benchmarks_of(config: pytest.Config, items: Iterable[pytest.Item]) -> list[Benchmark]:
    """The benchmarks that tests ask for with `engine` or `dataset`: those of the options."""
    names = {name for item in items for name in getattr(item, "fixturenames", ())}
    if "suite" not in names or not names & {"engine", "dataset"}:
        return []
    settings = settings_of(config)
    return [b for b in settings.benchmarks if settings.category in (None, b.category)]


def no_case_of(item: pytest.Item) -> NoCase | None:
    """Why a test has no case, None if it has one."""
    return next((value for value in _parameters(item) if isinstance(value, NoCase)), None)


def _parameters(item: pytest.Item) -> Iterable[Any]:
    callspec = getattr(item, "callspec", None)
    return callspec.params.values() if callspec else ()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let -k select a test by its rule's full name: accuracy_time_stamps."""
    key = step_of(item)
    if key is not None and kind_of(key).is_run:
        names = _rule_names(getattr(item, "originalname", item.name), key.mode)
        item.extra_keyword_matches.update(f"test_{name}" for name in names)


def _rule_names(test: str, mode: Mode) -> set[str]:
    """The names that the rule of a test may have on a mode's runs: its own, or with a prefix."""
    name = test.removeprefix("test_")
    return {name} if mode == "performance" else {name, f"{mode}_{name}"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in metafunc.fixturenames:
        if name in RUNS_OF_FIXTURES:
            _parametrize_runs(metafunc, name, RUNS_OF_FIXTURES[name])
        elif name in _CASES:
            cases, no_case = _CASES[name](metafunc.config)
            parametrize(metafunc, name, cases, no_case)


def parametrize(
    metafunc: pytest.Metafunc, name: str, cases: Iterable[Any], no_case: NoCase, *marks: Any
) -> None:
    """Give a test the cases of a fixture, or the one that says why it has none."""
    cases = [*cases] or [pytest.param(no_case, id="none", marks=marks)]
    metafunc.parametrize(name, cases, indirect=True)


def case_of(value: Case, *words: str, mode: Mode | None = None, marks: Iterable[Any] = ()) -> Any:
    """A case for what a run is asked, selected by the run's category, scenario and mode."""
    key = value.key
    mode = mode or key.mode
    names = [BENCHMARKS[key.benchmark].category, key.scenario.lower(), mode_marker(mode)]
    own = [getattr(pytest.mark, name) for name in names]
    return pytest.param(value, marks=[*own, *marks], id="-".join([key.benchmark, *words]))


def mode_marker(mode: Mode) -> str:
    return mode if mode in ("accuracy", "performance") else "compliance"


def scenarios_of(config: pytest.Config, mode: Mode) -> Iterator[tuple[Benchmark, Scenario]]:
    """Each scenario that can run in a mode, of named benchmarks and of the default ones.

    Cases for every benchmark would slow down collection for users who run one.
    """
    settings = settings_of(config)
    benchmarks = [b for b in runnable() if b.by_default or b.id in settings.named_benchmarks]
    for benchmark in benchmarks:
        if mode not in AUDIT_MODES or benchmark.audit(mode) is not None:
            for scenario in benchmark.scenarios:
                yield benchmark, scenario


# Runs


def run_key(
    benchmark: Benchmark, scenario: Scenario, mode: Mode, settings: Settings | None = None
) -> StepKey:
    """The key of a benchmark's run in a mode, of the kind that makes it; with `settings`, of the
    kind that they do not leave out."""
    kinds = [kind_named(benchmark.run_kind)] if settings is None else run_kinds()
    found = [kind.key_of(benchmark, scenario.name, mode) for kind in kinds]
    keys: list[StepKey] = [key for key in found if key is not None]
    if settings is not None:
        keys.sort(key=lambda key: kind_of(key).why_not(key, settings) is not None)
    if not keys:
        raise LookupError(f"{benchmark.id}: no kind of run has mode {mode}")
    return keys[0]


def _parametrize_runs(metafunc: pytest.Metafunc, fixture: str, kind: RunsOfFixture) -> None:
    runs = [
        (run_key(benchmark, scenario, mode), _rules_of(metafunc, benchmark, scenario, mode))
        for mode in kind.modes
        for benchmark, scenario in scenarios_of(metafunc.config, mode)
        if scenario.name in kind.scenarios
    ]
    if "metric" in metafunc.fixturenames:
        gates = [(key, rule) for key, rules in runs for rule in rules.values() if rule.metric]
        cases = [_metriccase_of(key, rule) for key, rule in gates]
        metafunc.parametrize((fixture, "metric"), cases, indirect=[fixture])
        return
    test, mode = metafunc.function.__name__, kind.modes[0]
    named = ((name, mode) for mode in kind.modes for name in _rule_names(test, mode))
    subjects = ((rule_named(name), mode) for name, mode in named)
    is_of_rule = any(rule is not None and rule.subject == mode for rule, mode in subjects)
    names = (f"test of {mode.upper()}", f"tests of {mode.upper()}")
    mark = getattr(pytest.mark, mode_marker(mode))
    keys = [key for key, rules in runs if not is_of_rule or _rule_names(test, key.mode) & {*rules}]
    cases = [_runcase_of(key, kind) for key in keys]
    parametrize(metafunc, fixture, cases, NoCase(names, OTHER_BENCHMARK), mark)


def _rules_of(
    metafunc: pytest.Metafunc, benchmark: Benchmark, scenario: Scenario, mode: Mode
) -> dict[str, Rule]:
    """The rules for a run by their names, looked up once per session."""
    rules, run = metafunc.config.stash.setdefault(_RULES, {}), (benchmark.id, scenario.name, mode)
    if run not in rules:
        rules[run] = {rule.name: rule for rule in rules_for(benchmark, scenario, mode)}
    return rules[run]


def _runcase_of(key: StepKey, kind: RunsOfFixture) -> Any:
    """A case for a run, whose id says of scenario and mode what the fixture leaves open."""
    scenario = [key.scenario.lower()] if len(kind.scenarios) > 1 else []
    return case_of(Case(key), *scenario, *([key.mode] if len(kind.modes) > 1 else []))


def _metriccase_of(key: StepKey, rule: Rule) -> Any:
    case = case_of(Case(key), key.scenario.lower(), rule.name)
    return pytest.param(Case(key), rule.metric, marks=case.marks, id=case.id)


# What is no run


def is_by_name(config: pytest.Config, word: str) -> bool:
    """Whether -m, -k or a test's path selects by this word."""
    paths = (str(argument).removeprefix(str(config.rootpath)) for argument in config.args)
    expressions = (config.getoption("markexpr"), config.getoption("keyword"), *paths)
    return any(word in str(expression or "") for expression in expressions)


class LoadGenClock:
    """A clock for pytest-benchmark that only advances by the durations of runs."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __repr__(self) -> str:
        return "LoadGen's clock"

    def __call__(self) -> float:
        return self.now_s


def _records(config: pytest.Config) -> tuple[list[Any], NoCase]:
    """The performance runs that pytest-benchmark records."""
    if profile_of(settings_of(config)) is not None:
        return [], PROFILED
    # Older ones read a node's `_nodeid`, which pytest 9.2 no longer has, and fail each record.
    found = config.pluginmanager.hasplugin("benchmark") and version("pytest-benchmark")
    if not found or Version(found) < Version("5.3.1"):
        return [], RECORD
    cases = []
    for benchmark, scenario in scenarios_of(config, "performance"):
        group = f"{benchmark.id} {scenario.name}"
        mark = pytest.mark.benchmark(timer=LoadGenClock(), group=group)
        key = run_key(benchmark, scenario, "performance")
        cases.append(case_of(Case(key), scenario.marker, marks=[mark]))
    return cases, RECORD


def _changes(config: pytest.Config, mode: Mode) -> tuple[list[Any], NoCase]:
    """The metrics for which a baseline has figures."""
    cases = []
    for benchmark, scenario in scenarios_of(config, mode):
        baseline = baselines_of(config).get((benchmark.id, scenario.name))
        if baseline is None:
            continue
        key = run_key(benchmark, scenario, mode, settings_of(config))
        for metric in baseline.metrics(mode):
            case = MetricCase(key, metric.name)
            cases.append(case_of(case, scenario.marker, metric.name, mode=mode))
    return cases, REGRESSION


_CASES: dict[str, Callable[[pytest.Config], tuple[list[Any], NoCase]]] = {
    "performance_change": lambda config: _changes(config, "performance"),
    "score_change": lambda config: _changes(config, "accuracy"),
    "benchmarked_run": _records,
    "log_verdict": lambda config: (log_cases(judged_of(config) or []), LOGS),
}
"""By fixture, its cases and the reason if there is none."""
