"""LoadGen's runs: accuracy, performance and MLPerf's audits of each scenario."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import MIN_DURATION_MS, Benchmark
from mlperf_suite.loadgen.load_plan import COMPARED, MODES, RunKey
from mlperf_suite.session.run_kind import (
    BenchmarkAndScenario,
    Maker,
    OfOneRun,
    Selection,
    Step,
    StepKey,
    kind_of,
)
from mlperf_suite.session.timing.estimate import Estimator, sized_by_rate

if TYPE_CHECKING:
    from mlperf_suite.results.record import Result
    from mlperf_suite.session.executor import SessionParts
    from mlperf_suite.session.timing.run_sizing import RunSizing


class ScenarioRun(OfOneRun[RunKey]):
    """A run of a benchmark's scenario in a mode, of any kind."""

    long_steps = ("run",)

    def order(self, key: RunKey) -> tuple[Any, ...]:
        """By benchmark, then scenario: Offline first, since Server needs its rate."""
        return *super().order(key), MODES.index(key.mode)


class LoadGenRuns(ScenarioRun):
    """The runs that LoadGen makes on the engine in this process, replicas or an endpoint."""

    name, rank = RunKey.kind, 0

    def key_of(self, benchmark: Benchmark, scenario: str, mode: Mode) -> RunKey | None:
        is_own = benchmark.run_kind == self.name
        return RunKey(benchmark.id, scenario, mode) if is_own else None

    def fault(
        self, own: Sequence[RunKey], every: Sequence[StepKey], given: Callable[[str], Any]
    ) -> str | None:
        performs = any(kind_of(k).is_run and k.mode == "performance" for k in every)
        if given("repeat") not in (None, "1") and not performs:
            return f"--repeat {given('repeat')}: no performance run is among the selected tests"
        return None

    # The plan

    def needs(self, key: RunKey, selection: Selection) -> tuple[StepKey, ...]:
        accuracy = replace(key, mode="accuracy")
        follows = key.mode == "performance" and accuracy in selection.keys
        before = (accuracy,) if follows else ()
        at_a_rate = key in selection.keys and self.is_at_a_rate(key)
        if needs_offline(key.benchmark, at_a_rate, selection):
            before = (*before, offline_run(key.benchmark))
        return (*before, *_compared_with(key))

    def steps(
        self, keys: Sequence[RunKey], selection: Selection
    ) -> Mapping[RunKey, Sequence[Step]]:
        rates = _rate_steps(keys, selection)
        first = {key.benchmark_and_scenario: key for key in reversed(keys)}
        steps: dict[RunKey, Sequence[Step]] = {}
        for key in keys:
            rate = rates.get(key.benchmark_and_scenario)
            at_rate = rate is not None and (rate.key == key or sized_by_rate(key, selection))
            before = [rate] if rate is not None and at_rate else []
            is_first = first[key.benchmark_and_scenario] == key
            steps[key] = [*before, *_steps_of_run(key, selection, is_first)]
        return steps

    # Times

    def seconds(self, step: Step, key: RunKey, estimator: Estimator) -> float | None:
        return estimator.run_s(step.kind, key)

    def least_s(self, key: RunKey) -> float:
        return MIN_DURATION_MS / 1e3 if key.mode == "performance" else 0.0

    def learn(self, step: Step, outcome: Any, sizing: RunSizing) -> None:
        key: Any = step.key
        if step.kind == "rate":
            sizing.learn_rate(key.benchmark_and_scenario, outcome)
        elif step.kind == "run":
            sizing.learn_run(key, outcome)

    def missed(self, key: RunKey, sizing: RunSizing) -> None:
        if key.mode == "accuracy":
            sizing.accuracy_failed(key.benchmark_and_scenario)

    # The steps

    def maker(self, session: SessionParts) -> Maker:
        from mlperf_suite.session.scenario_runs import ScenarioRuns

        return ScenarioRuns(*session.run_parts, session.preparation)

    def record(self, step: Step, outcome: Any, result: Result) -> None:
        key: Any = step.key
        if step.kind == "warm-up" and outcome is not None:
            record = result.runs[key.mode]
            record.warm_up = record.warm_up or outcome


KIND = LoadGenRuns()


def offline_run(benchmark: str) -> RunKey:
    """The Offline run whose rate LoadGen's runs at a rate take."""
    return RunKey(benchmark, "Offline", "performance")


def needs_offline(benchmark: str, at_a_rate: bool, selection: Selection) -> bool:
    """Whether a run at a rate needs an Offline run of the session to know it."""
    return at_a_rate and benchmark not in selection.rates_known


def _compared_with(key: RunKey) -> tuple[RunKey, ...]:
    """The runs whose answers and rate an audit is compared with, if it is such an audit."""
    audit = BENCHMARKS[key.benchmark].audit(key.mode)
    if audit is None or not audit.compares:
        return ()
    accuracy, performance = (replace(key, mode=mode) for mode in COMPARED)
    return accuracy, performance


def _rate_steps(keys: Collection[RunKey], selection: Selection) -> dict[BenchmarkAndScenario, Step]:
    """By place, the step that measures the rate which no accuracy run shows."""
    steps: dict[BenchmarkAndScenario, Step] = {}
    for key in keys:
        place = key.benchmark_and_scenario
        has_rate = (
            replace(key, mode="accuracy") in keys
            and BENCHMARKS[key.benchmark].accuracy_samples is None
            and place not in selection.no_rate
        )
        sized = sized_by_rate(key, selection) and not has_rate
        if place not in steps and (sized or _gives_server_no_rate(key, selection)):
            steps[place] = Step("rate", key, f"{key}: estimate the rate")
    return steps


def _gives_server_no_rate(key: RunKey, selection: Selection) -> bool:
    """Whether a run is the Offline run that Server needs, but made under the profiler, which slows
    it down."""
    is_offline = key == offline_run(key.benchmark)
    if not (selection.profiled and is_offline and key in selection.keys):
        return False
    return key.benchmark in selection.at_a_rate and key.benchmark not in selection.rates_known


def _steps_of_run(key: RunKey, selection: Selection, is_first: bool) -> list[Step]:
    repeat = selection.repeat if key.mode == "performance" else 1
    is_compared = any(
        key in _compared_with(replace(key, mode=audit.mode))
        for audit in BENCHMARKS[key.benchmark].audits
        if replace(key, mode=audit.mode) in selection.keys
    )
    why = " (to compare an audit with)" if is_compared else " (for Server's rate)"
    why = "" if key in selection.keys else why
    steps = []
    for number in range(1, repeat + 1):
        again = f", run {number} of {repeat}" if repeat > 1 else ""
        if selection.warm_up and ((is_first and number == 1) or not selection.warm_up_once):
            steps.append(Step("warm-up", key, f"{key}{again}: warm-up", number))
        steps.append(Step("run", key, f"{key}{again}{why}", number))
    return steps
