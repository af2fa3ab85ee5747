"""The plan of a session with its times, and the sizes and rates of its runs.

What a step measured is handed to `RunSizing.learn`; everything else is computed from it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.record import RunRecord
from mlperf_suite.results.schema import CLIENT_BOUND, PerformanceFigures, PlanRow
from mlperf_suite.rules.limits import client_bound
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.session.companion import ProfiledRuns, profile_of
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import Plan, duration_words, plan_session
from mlperf_suite.session.run_kind import BenchmarkAndScenario, Step, kind_of
from mlperf_suite.session.timing.estimate import EngineSpeed, Estimator, offline_qps, server_qps

_END_S = 3.0
"""Time to stop the engine and to write the last reports."""
_TAIL_FACTOR = 2.0
"""Answers that can be longer than this many times their mean have a tail."""


class RunSizing:
    """The plan, what its steps measured, and the consequences.

    `baselines`: a run that is compared with an earlier one takes as many samples as that one.
    """

    def __init__(
        self, inputs: Inputs, plan: Plan, baselines: Mapping[tuple[str, str], BaselineRun]
    ) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self.plan = plan
        self._baselines = baselines
        self._kept_samples: Mapping[BenchmarkAndScenario, int] = {}
        self.estimator = self._estimator_of(None)
        """The consequences of the engine's speed: times and sizes."""
        self._offline_rates: dict[str, float] = {}
        """By benchmark id, the samples/s that Offline reached, in this session or earlier."""
        self._limited: set[str] = set()
        """The benchmarks whose Offline run the client limited, so that it shows no rate."""
        self._accuracy_rates: dict[BenchmarkAndScenario, float] = {}
        self._rates: dict[BenchmarkAndScenario, float] = {}
        """The samples/s that a rate step measured."""
        self._corrected: dict[BenchmarkAndScenario, float] = {}
        """The samples/s of a run that ended too early, sized by too low a rate."""
        self._estimates: dict[Step, float] = {}
        self._durations: dict[Step, float] = {}
        self._began_s = time.monotonic()
        self._announced: dict[Step, float] = {}
        """What the session's time was announced with."""
        self._all_announced = True
        self._current: tuple[Step, float] | None = None
        """The step that is being made, and when it began."""
        self._total_s: float | None = None

    def _estimator_of(self, speed: EngineSpeed | None) -> Estimator:
        samples = {kind: run.summary.meta.samples for kind, run in self._baselines.items()}
        return Estimator(
            self._settings,
            speed,
            self._inputs.lengths,
            lambda benchmark, mode: len(self._inputs.samples(benchmark, mode).items),
            {kind: count for kind, count in samples.items() if count},
            self._inputs.of_kind,
            self._kept_samples,
        )

    # What the steps measured

    def learn(self, step: Step, outcome: object) -> None:
        """Take up what a step returned."""
        if isinstance(outcome, EngineSpeed):
            self.estimator = self._estimator_of(outcome)
            self._estimate()
        elif step.key is not None:
            kind_of(step.key).learn(step, outcome, self)

    def learn_rate(self, place: BenchmarkAndScenario, samples_per_s: float) -> None:
        """Take up the rate that a step measured."""
        self._rates[place] = samples_per_s

    def learn_run(self, key: RunKey, record: RunRecord) -> None:
        """Take up the rates that a LoadGen run shows."""
        if key.mode == "accuracy" and record.rate:
            self._accuracy_rates[key.benchmark_and_scenario] = record.rate
        if _is_client_bound(record.verdicts) and key.scenario == "Offline":
            self._limited.add(key.benchmark)
        elif not self.profile_of(key):
            self.learn_offline(key.benchmark_and_scenario, record)

    def learn_offline(self, place: BenchmarkAndScenario, record: RunRecord) -> None:
        """Take up the samples/s of a performance run, if it is Offline's."""
        figures = record.figures
        if not isinstance(figures, PerformanceFigures) or place[1] != "Offline":
            return
        if figures.samples_per_sec:
            self._offline_rates[place[0]] = figures.samples_per_sec

    def correct(self, key: RunKey, samples_per_s: float) -> None:
        """Size the runs of a place by what one of them reached, not by earlier measurements."""
        self._corrected[key.benchmark_and_scenario] = samples_per_s

    def begin(self, step: Step) -> None:
        self._current = step, time.monotonic()

    def keep_duration(self, step: Step, seconds: float) -> None:
        """Keep how long a step took; the first time counts, if an engine is loaded again."""
        self._durations.setdefault(step, seconds)

    def use_kept_rates(self, rates: Mapping[str, float]) -> None:
        """Use the Offline rates that earlier sessions measured on the loaded engine, by benchmark.

        Where the plan relied on one that turns out to be another engine's, it gets the Offline run.
        """
        self._offline_rates = {**rates, **self._offline_rates}
        self._revise(
            rates_known=[
                benchmark
                for benchmark in self.plan.selection.rates_known
                if benchmark in self._offline_rates
            ]
        )

    def use_kept_samples(self, samples: Mapping[BenchmarkAndScenario, int]) -> None:
        """Size the runs as earlier sessions did on the loaded engine, by benchmark and scenario."""
        self._kept_samples = samples
        self.estimator = self._estimator_of(self.estimator.speed)

    def accuracy_failed(self, place: BenchmarkAndScenario) -> None:
        """An accuracy run shows no rate: plan the step that measures it for the runs that
        remain."""
        self._revise(no_rate=(*self.plan.selection.no_rate, place))

    def _revise(self, **changes: Any) -> None:
        plan = plan_session(dataclasses.replace(self.plan.selection, **changes))
        if plan != self.plan:
            self.plan = plan
            self._estimate()

    def profile_of(self, key: RunKey) -> ProfiledRuns | None:
        """How a run is profiled: every selected run is. A run that only finds Server's rate is not,
        since a profiler slows it down."""
        is_selected = key in self.plan.runs and key not in self.plan.implicit_runs
        return profile_of(self._settings) if is_selected else None

    # Times

    def _estimate(self) -> None:
        if self.estimator.speed is None:
            return
        ahead = [step for step in self.plan.steps if step not in self._durations]
        seconds = {step: self.estimator.seconds(step) for step in ahead}
        self._estimates |= {step: s for step, s in seconds.items() if s is not None}

    def announce(self, seconds: Mapping[Step, float]) -> float:
        """The session's time in s from its steps', said once: the last line compares with it."""
        elapsed_s = time.monotonic() - self._began_s
        ahead_s = sum(s for step, s in seconds.items() if step not in self._durations)
        self._total_s = elapsed_s + ahead_s + _END_S
        self._announced = dict(seconds)
        self._all_announced = self.plan.is_known({*seconds, *self._durations})
        return self._total_s

    def left_s(self) -> float | None:
        """The seconds that the rest of the session is expected to take; None before they are
        known."""
        seconds = self._announced | self._estimates
        if self._total_s is None or not self._all_announced:
            return None
        ahead = {s: seconds.get(s, 0.0) for s in self.plan.steps if s not in self._durations}
        if self._current is not None and self._current[0] in ahead:
            step, began_s = self._current
            ahead[step] = max(0.0, ahead[step] - (time.monotonic() - began_s))
        return sum(ahead.values()) + _END_S

    def lines(self) -> list[str]:
        """The plan with its times, and the sizes of the runs, once the speed was measured."""
        remote = source_of(self._settings).is_remote
        source = f"measured by a probe of the {'endpoint' if remote else 'loaded engine'}"
        total_s = self.announce(self._estimates) if self._total_s is None else None
        seconds = self._durations | self._estimates
        return [*self.plan.lines(seconds, source, total_s), *self._size_lines()]

    def _size_lines(self) -> list[str]:
        lines = []
        for id_, name in dict.fromkeys(
            k.benchmark_and_scenario for k in self.plan.runs if k.kind == RunKey.kind
        ):
            benchmark = BENCHMARKS[id_]
            scenario = benchmark.scenario(name)
            sizes = {f"{id_} {name}": self.estimator.size(benchmark, scenario)}
            for audit in benchmark.audits:
                key = RunKey(id_, name, audit.mode)
                if key in self.plan.runs:
                    sizes[str(key)] = self.estimator.audit_size(benchmark, scenario, audit)
            lines += [f"{place}: {size.why}" for place, size in sizes.items() if size.why]
        return lines

    def time_line(self) -> str:
        """The planned and actual time of the session; empty if it was not planned."""
        if self._total_s is None:
            return ""
        took = duration_words(time.monotonic() - self._began_s)
        least = "" if self._all_announced else "more than "
        return f"planned {least}{duration_words(self._total_s)}, took {took}"

    def rows(self, benchmark: Benchmark, scenario: str) -> list[PlanRow]:
        """The steps of a result with their expected and actual times, for its summary."""
        place = (benchmark.id, scenario)
        return [
            PlanRow(
                step.what, _rounded(self._estimates.get(step)), _rounded(self._durations.get(step))
            )
            for step in self.plan.steps
            if step.key is None or step.kind == "load" or step.key.benchmark_and_scenario == place
        ]

    # Rates

    def target_qps(self, key: RunKey) -> float | None:
        """The target QPS: queries/s that Server is sent, or samples/s that Offline is planned for.

        Raises RunError if nothing shows the rate.
        """
        benchmark = BENCHMARKS[key.benchmark]
        scenario = benchmark.scenario(key.scenario)
        if scenario.loadgen_scenario == "Server":
            return self.server_qps(key.benchmark)
        if scenario.loadgen_scenario != "Offline" or key.mode == "accuracy":
            return None
        if self._settings.offline_target_qps is not None:
            return self._settings.offline_target_qps
        longest = self._inputs.generation(benchmark, key.mode).max_new_tokens
        workload = self._inputs.workload(benchmark)
        # In a short run the first pictures or sounds, which prepare their part of the model, count,
        # and a run that ended far too early reached less than a longer one does.
        too_slow = self._settings.smoke and (
            bool(workload.media) or key.benchmark_and_scenario in self._corrected
        )
        tail = too_slow or longest > _TAIL_FACTOR * workload.part(key.mode).mean_tokens
        return offline_qps(self._rate(key), tail=tail)

    def _rate(self, key: RunKey) -> float:
        """The samples/s of a place: of its accuracy run, or of the step that measured it.

        Raises RunError if neither shows one.
        """
        # Separate accuracy data has answers of a different length.
        alike = BENCHMARKS[key.benchmark].accuracy_samples is None
        rate = self._corrected.get(key.benchmark_and_scenario)
        rate = rate or (self._accuracy_rates.get(key.benchmark_and_scenario) if alike else None)
        rate = rate or self._rates.get(key.benchmark_and_scenario)
        if rate is None:
            raise RunError("neither an accuracy run nor a step measured the rate")
        return rate

    def server_qps(self, benchmark: str) -> float:
        """Server's target QPS: as given, or a share of what Offline reached.

        An Offline run under the profiler gives no usable rate: the step that measured it counts.
        Raises RunError if there is none.
        """
        if self._settings.server_target_qps:
            return self._settings.server_target_qps
        if benchmark in self._offline_rates:
            return server_qps(self._offline_rates[benchmark])
        offline = RunKey(benchmark, "Offline", "performance")
        if self.profile_of(offline) and (benchmark, "Offline") in self._rates:
            return server_qps(self._rates[benchmark, "Offline"])
        why = CLIENT_BOUND if benchmark in self._limited else "LoadGen reported no samples/s"
        raise RunError(f"{offline} shows no rate for Server ({why}): give --server-target-qps")

    def expected_latency_ms(self, key: RunKey) -> float | None:
        """The expected latency of a SingleStream query, from which LoadGen sizes the run.

        Raises RunError if nothing shows it.
        """
        scenario = BENCHMARKS[key.benchmark].scenario(key.scenario)
        if scenario.loadgen_scenario != "SingleStream" or key.mode == "accuracy":
            return None
        return round(1000 / self._rate(key), 3)


def _is_client_bound(verdicts: Sequence[Verdict]) -> bool:
    """Whether the client limited a run, smoke runs included."""
    rule = client_bound.__name__
    return any(v.rule == rule and v.status in ("failed", "shortened") for v in verdicts)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
