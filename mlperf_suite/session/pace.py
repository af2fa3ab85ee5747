"""How fast this engine is, and what follows: sizes of runs, rates to plan for, time to expect."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.probe import Speed, probe
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.loadgen.load_plan import SMOKE
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.record import RunKey
from mlperf_suite.results.schema import PlanRow
from mlperf_suite.session import estimate
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import Plan, SearchKey, Step
from mlperf_suite.session.rates import offline_qps, server_qps
from mlperf_suite.session.sizes import Size, audit_queries_that_fit, samples_that_fit
from mlperf_suite.session.warm_up import warm_up_prompts, warm_up_requests
from mlperf_suite.session.watcher import Watcher

_PROBE_PROMPTS = 32
_RATE_PROBE_SAMPLES = {True: 16, False: 1024}
"""Samples that measure the rate where no accuracy run did, by whether the run is a smoke run."""
_LATENCY_PROBES = 3


class Pace:
    """Measured once, when the engine of the runs is loaded.

    `baselines`: a run that is compared with an earlier one takes as many samples as that had.
    """

    def __init__(
        self,
        inputs: Inputs,
        plan: Plan,
        baselines: Mapping[tuple[str, str], BaselineRun],
        watcher: Watcher,
    ) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._plan = plan
        self._baselines = baselines
        self._watch = watcher
        self._speed: Speed | None = None
        self._sizes: dict[tuple[str, str], Size] = {}
        self.offline_rates: dict[str, float] = {}
        """By benchmark id, the samples/s that Offline reached, in this session or earlier."""
        self.expected: dict[Step, float] = {}
        self.took: dict[Step, float] = {}

    def measure(self, engine: Engine) -> None:
        """Probe the engine, decide the sizes of the runs, and say how long they will take.

        A stand-in engine has no speed: it is told how to behave, and everything fits.
        """
        if engine.description.stand_in:
            return
        benchmark = self._inputs.benchmarks[0]
        self._watch.begin("probing the engine's speed")
        prompts = warm_up_prompts(self._inputs.prompts(benchmark), _PROBE_PROMPTS)
        self._speed = probe(engine, prompts, self._inputs.generation(benchmark))
        self._watch.idle()
        self._sizes.clear()
        self.expected = self._estimates()
        said = "as a probe of the loaded engine measured it"
        for line in [*self._plan.lines(self.expected, said), *self._size_lines()]:
            self._watch.say(line)

    def _size_lines(self) -> list[str]:
        keys = dict.fromkeys((key.benchmark, key.scenario) for key in self._plan.runs)
        lines = []
        for benchmark, scenario in keys:
            size = self._sizes.get((benchmark, scenario))
            if size is not None and size.why:
                lines.append(f"{benchmark} {scenario}: {size.why}")
        return lines

    @property
    def speed_json(self) -> dict[str, Any] | None:
        """The speed as config.json keeps it; None where none was measured."""
        return None if self._speed is None else dataclasses.asdict(self._speed)

    # Sizes

    def size(self, benchmark: Benchmark, scenario: Scenario) -> Size:
        """The samples that the runs of a scenario take: all, but for what smoke shortens."""
        kind = (benchmark.id, scenario.name)
        if kind not in self._sizes:
            self._sizes[kind] = self._size(benchmark, scenario)
        return self._sizes[kind]

    def _size(self, benchmark: Benchmark, scenario: Scenario) -> Size:
        available = len(self._inputs.samples(benchmark).items)
        if not self._settings.smoke or self._settings.total_sample_count is not None:
            return Size(available)
        baseline = self._baselines.get((benchmark.id, scenario.name))
        then = baseline.summary.meta.samples if baseline else None
        if then is not None and then <= available:
            return Size(then, "as many as the baseline's" if then < available else "")
        most = min(available, SMOKE[scenario.loadgen_scenario].samples or available)
        if self._speed is None:
            return Size(most)
        lengths, speed = self._inputs.lengths(benchmark), self._speed

        def seconds(samples: int) -> float:
            return estimate.run_s(
                scenario, "performance", speed, lengths, samples, smoke=True, server_qps=self._told
            )

        return samples_that_fit(most, seconds)

    @property
    def _told(self) -> float | None:
        return self._settings.server_target_qps

    def audit_queries(self, benchmark: Benchmark, scenario: Scenario) -> int | None:
        """How many queries a shortened TEST06 issues; None for its own 100."""
        found = self._audit_size(benchmark, scenario)
        return found.samples if found.why else None

    def _audit_size(self, benchmark: Benchmark, scenario: Scenario) -> Size:
        speed = self._speed
        if not self._settings.smoke or speed is None:
            return Size(0)
        lengths = self._inputs.lengths(benchmark)
        samples = self.size(benchmark, scenario).samples

        def seconds(queries: int) -> float:
            return estimate.run_s(
                scenario,
                "test06",
                speed,
                lengths,
                samples,
                smoke=True,
                server_qps=self._told,
                audit_queries=queries,
            )

        return audit_queries_that_fit(seconds)

    # Rates

    def target_qps(self, key: RunKey, engine: Engine, seen: float | None) -> float | None:
        """Queries/s that Server is sent, or samples/s that Offline is planned for.

        `seen`: the samples/s of this result's accuracy run, None where none was made.
        """
        scenario = BENCHMARKS[key.benchmark].scenario(key.scenario)
        if scenario.loadgen_scenario == "Server":
            return self.server_qps(key.benchmark)
        if scenario.loadgen_scenario != "Offline" or key.mode == "accuracy":
            return None
        if self._settings.offline_target_qps is not None:
            return self._settings.offline_target_qps
        return offline_qps(seen or self._probed_rate(key, engine))

    def server_qps(self, benchmark: str) -> float:
        """Queries/s that Server is sent: as told, or a share of what Offline reached."""
        return self._settings.server_target_qps or server_qps(self.offline_rates[benchmark])

    def expected_latency_ms(self, key: RunKey, engine: Engine, seen: float | None) -> float | None:
        """One SingleStream query's latency; LoadGen prepares as many queries as it promises."""
        scenario = BENCHMARKS[key.benchmark].scenario(key.scenario)
        if scenario.loadgen_scenario != "SingleStream":
            return None
        return round(1000 / (seen or self._probed_rate(key, engine, one_by_one=True)), 3)

    def _probed_rate(self, key: RunKey, engine: Engine, *, one_by_one: bool = False) -> float:
        """Samples/s of a few prompts of the benchmark's lengths, where no accuracy run told it."""
        self._watch.begin("measuring the rate to plan for")
        benchmark = BENCHMARKS[key.benchmark]
        generation, own = self._inputs.generation(benchmark), self._inputs.prompts(benchmark)
        if one_by_one:
            prompts = warm_up_prompts(own, min(_LATENCY_PROBES, len(own)))
            probes = [generate_all(engine, [prompt], generation) for prompt in prompts]
            return len(prompts) / sum(one.elapsed_s for one in probes)
        count = min(_RATE_PROBE_SAMPLES[self._settings.smoke], len(own))
        answered = generate_all(engine, warm_up_prompts(own, count), generation)
        return count / answered.elapsed_s

    # Time

    def _estimates(self) -> dict[Step, float]:
        """Seconds of each step, as far as the engine's speed tells."""
        if self._speed is None:
            return {}
        return {
            step: seconds
            for step in self._plan.steps
            if (seconds := self._seconds(step, self._speed)) is not None
        }

    def _seconds(self, step: Step, speed: Speed) -> float | None:
        key = step.key
        if step.kind == "load":
            return self.took.get(step, _LOAD_S)
        if step.kind == "mmlu":
            return None
        assert isinstance(key, RunKey | SearchKey)
        benchmark = BENCHMARKS[key.benchmark]
        scenario, lengths = benchmark.scenario(key.scenario), self._inputs.lengths(benchmark)
        smoke = self._settings.smoke
        if isinstance(key, SearchKey):
            return estimate.search_s(scenario, speed, lengths, smoke=smoke)
        if step.kind == "warm-up":
            requests = warm_up_requests(scenario, self._settings.warmup, smoke=smoke)
            return estimate.warm_up_s(scenario, speed, lengths, requests)
        return estimate.run_s(
            scenario,
            key.mode,
            speed,
            lengths,
            self.size(benchmark, scenario).samples,
            smoke=smoke,
            server_qps=self._told,
            audit_queries=self.audit_queries(benchmark, scenario),
        )

    def rows(self, benchmark: Benchmark, scenario: str) -> list[PlanRow]:
        """The steps of a result as planned and as they went, for its summary."""
        return [
            PlanRow(step.what, _rounded(self.expected.get(step)), _rounded(self.took.get(step)))
            for step in self._plan.steps
            if step.kind == "load" or _is_of(step, benchmark.id, scenario)
        ]


_LOAD_S = 30.0
"""What loading takes where it was not measured yet, in s."""


def _is_of(step: Step, benchmark: str, scenario: str) -> bool:
    key = step.key
    if not isinstance(key, RunKey | SearchKey):
        return False
    return (key.benchmark, key.scenario) == (benchmark, scenario)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
