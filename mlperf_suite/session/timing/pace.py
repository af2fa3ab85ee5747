"""Measures this engine's speed and derives run sizes, rates to plan for and expected times."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

from mlperf_suite.benchmarks.audits import Audit, Mode
from mlperf_suite.benchmarks.definition import Benchmark, Generation, Scenario
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine, ReplicatedEngine
from mlperf_suite.loadgen.load_plan import CACHING
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.record import RunKey
from mlperf_suite.results.schema import PlanRow
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import MMLU, Plan, SearchKey, Step
from mlperf_suite.session.timing.estimate import Estimator, rate_probe_samples
from mlperf_suite.session.timing.probe import Speed, probe, probe_replicas
from mlperf_suite.session.timing.rates import offline_qps, server_qps
from mlperf_suite.session.timing.sizes import Size
from mlperf_suite.session.warm_up import warm_up_prompts
from mlperf_suite.session.watcher import Watcher

_PROBE_PROMPTS = 32
_LONG_TAIL = 2.0
"""Answers that can be longer than this many times their mean have a tail."""


class Pace:
    """The speed, measured once, when the engine of the runs is loaded, and what follows from it.

    `baselines`: a run that is compared with an earlier one takes as many samples as that one.
    `questions`: returns the numbers of MMLU's questions and shots.
    """

    def __init__(
        self,
        inputs: Inputs,
        plan: Plan,
        baselines: Mapping[tuple[str, str], BaselineRun],
        questions: Callable[[], tuple[int, int]],
        watcher: Watcher,
    ) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._plan = plan
        self._baselines = baselines
        self._questions = questions
        self._watch = watcher
        self._estimator = self._estimator_of(None)
        self.offline_rates: dict[str, float] = {}
        """By benchmark id, the samples/s that Offline reached, in this session or earlier."""
        self.probed: dict[tuple[str, str], float] = {}
        """By benchmark id and scenario, the samples/s that `measure_rate` found."""
        self.expected: dict[Step, float] = {}
        self.took: dict[Step, float] = {}

    def _estimator_of(self, speed: Speed | None) -> Estimator:
        samples = {kind: run.summary.meta.samples for kind, run in self._baselines.items()}
        mmlu = MMLU in self._plan.keys and speed is not None
        questions, shots = self._questions() if mmlu else (0, 0)
        return Estimator(
            self._settings,
            speed,
            self._inputs.lengths,
            lambda benchmark, mode: len(self._inputs.samples(benchmark, mode).items),
            {kind: count for kind, count in samples.items() if count},
            questions,
            shots,
        )

    def measure(self, engine: Engine) -> None:
        """Probe the engine, decide the sizes of the runs and report how long they will take.

        A stand-in engine is not probed: its delays are made up, and no run is shortened for it.
        """
        if engine.description.stand_in or self._estimator.speed is not None:
            return
        benchmark = self._inputs.benchmarks[0]
        self._watch.begin("probing the engine's speed")
        prompts = warm_up_prompts(self._inputs.prompts(benchmark), _PROBE_PROMPTS)
        generation = self._inputs.generation(benchmark)
        silence_s = self._settings.engine_silence
        if isinstance(engine, ReplicatedEngine):
            speed, rates, cost = probe_replicas(engine, prompts, generation, silence_s)
            weighed = engine.weigh(rates, cost)
            if len(set(rates)) > 1:
                shares = ", ".join(f"{rate / max(rates):.2f}" for rate in rates)
                used = "requests are routed by it" if weighed else "their devices are the same"
                self._watch.say(f"speed of each replica, of the fastest: {shares} ({used})")
        else:
            speed = probe(engine, prompts, generation, silence_s=silence_s)
        self._watch.idle()
        self._estimator = self._estimator_of(speed)
        steps = self._plan.steps
        loaded = [step for step in steps if step in self.took]
        ahead = [step for step in steps if step not in loaded]
        self.expected = {s: t for s in ahead if (t := self._estimator.seconds(s)) is not None}
        remote = self._settings.engine_kind == "endpoint"
        said = f"measured by a probe of the {'endpoint' if remote else 'loaded engine'}"
        known = {step: self.took[step] for step in loaded} | self.expected
        # The empty line ends the line that pytest is writing.
        for line in [*self._plan.lines(known, said), *self._size_lines(), ""]:
            self._watch.say(line)

    def _size_lines(self) -> list[str]:
        lines = []
        sized = [key for key in self._plan.runs if key.mode != CACHING]
        for id_, name in dict.fromkeys((key.benchmark, key.scenario) for key in sized):
            benchmark = BENCHMARKS[id_]
            scenario = benchmark.scenario(name)
            sizes = [(f"{id_} {name}", self.size(benchmark, scenario))]
            sizes += [
                (
                    f"{id_} {name} {audit.mode}",
                    self._estimator.audit_size(benchmark, scenario, audit),
                )
                for audit in benchmark.audits
                if RunKey(id_, name, audit.mode) in self._plan.runs
            ]
            lines += [f"{of}: {size.why}" for of, size in sizes if size.why]
        return lines

    @property
    def speed_json(self) -> dict[str, Any] | None:
        """The speed as config.json stores it; None if it was not measured."""
        speed = self._estimator.speed
        return None if speed is None else dataclasses.asdict(speed)

    def size(self, benchmark: Benchmark, scenario: Scenario, mode: Mode = "performance") -> Size:
        """The samples that the runs of a scenario take, as known so far."""
        return self._estimator.size(benchmark, scenario, mode)

    def warm_up_generation(self, benchmark: Benchmark, scenario: Scenario) -> Generation:
        """How the answers of a warm-up are generated."""
        own = self._inputs.generation(benchmark)
        return self._estimator.warm_up_generation(benchmark, scenario, own)

    def audit_queries(self, benchmark: Benchmark, scenario: Scenario, audit: Audit) -> int | None:
        """How many queries a shortened audit issues; None for its own number."""
        size = self._estimator.audit_size(benchmark, scenario, audit)
        return size.samples if size.why else None

    def caching_at_once(self, benchmark: Benchmark) -> int:
        """The samples of a block of the caching audit."""
        return self._estimator.caching_at_once(benchmark)

    # Rates

    def target_qps(self, key: RunKey, seen: float | None) -> float | None:
        """The target QPS: queries/s that Server is sent, or samples/s that Offline is planned for.

        `seen`: the samples/s of this result's accuracy run, or None without one; `measure_rate`
        was called in that case.
        """
        scenario = BENCHMARKS[key.benchmark].scenario(key.scenario)
        if scenario.loadgen_scenario == "Server":
            return self.server_qps(key.benchmark)
        if scenario.loadgen_scenario != "Offline" or key.mode == "accuracy":
            return None
        if self._settings.offline_target_qps is not None:
            return self._settings.offline_target_qps
        benchmark = BENCHMARKS[key.benchmark]
        most, mean = (
            self._inputs.generation(benchmark, key.mode).max_new_tokens,
            self._inputs.workload(benchmark).part(key.mode).mean_tokens,
        )
        rate = seen or self.probed[key.benchmark, key.scenario]
        return offline_qps(rate, tail=most > _LONG_TAIL * mean)

    def server_qps(self, benchmark: str) -> float:
        """Server's target QPS: as given, or a share of what Offline reached."""
        return self._settings.server_target_qps or server_qps(self.offline_rates[benchmark])

    def expected_latency_ms(self, key: RunKey, seen: float | None) -> float | None:
        """The expected latency of a SingleStream query, from which LoadGen sizes the run.

        `seen`: as for `target_qps`.
        """
        scenario = BENCHMARKS[key.benchmark].scenario(key.scenario)
        if scenario.loadgen_scenario != "SingleStream" or key.mode == "accuracy":
            return None
        return round(1000 / (seen or self.probed[key.benchmark, key.scenario]), 3)

    def measure_rate(self, benchmark: Benchmark, scenario: Scenario, engine: Engine) -> None:
        """Measure the samples/s to plan for with a few prompts of the benchmark's lengths.

        Measured once, so that all repeats have the same length.
        """
        place = (benchmark.id, scenario.name)
        if place in self.probed:
            return
        self._watch.begin("measuring the rate to plan for")
        count = rate_probe_samples(scenario, smoke=self._settings.smoke)
        own = self._inputs.prompts(benchmark)
        prompts = warm_up_prompts(own, min(count, len(own)))
        alone = scenario.loadgen_scenario == "SingleStream"
        generation, silence_s = self._inputs.generation(benchmark), self._settings.engine_silence
        stops = self._inputs.stops(benchmark, "performance") or [""]
        batches = [(prompts, stops)]
        if alone:
            batches = [([one], [stop]) for one, stop in zip(prompts, cycle(stops), strict=False)]
        elapsed_s = sum(
            generate_all(engine, batch, generation, silence_s, ends).elapsed_s
            for batch, ends in batches
        )
        self.probed[place] = len(prompts) / elapsed_s

    def rows(self, benchmark: Benchmark, scenario: str) -> list[PlanRow]:
        """The steps of a result with their expected and actual times, for its summary."""
        return [
            PlanRow(step.what, _rounded(self.expected.get(step)), _rounded(self.took.get(step)))
            for step in self._plan.steps
            if step.kind == "load" or _is_of(step, benchmark.id, scenario)
        ]


def _is_of(step: Step, benchmark: str, scenario: str) -> bool:
    key = step.key
    if not isinstance(key, RunKey | SearchKey):
        return False
    return (key.benchmark, key.scenario) == (benchmark, scenario)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
