"""The steps before the runs: the engine is loaded and measured. They work outside LoadGen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine, EngineDescription, ReplicatedEngine
from mlperf_suite.results.record import RunKey
from mlperf_suite.results.run_folder import ENGINE_LOG
from mlperf_suite.results.schema import ScalingFigures, WarmUpFigures
from mlperf_suite.session.energy import Energy
from mlperf_suite.session.engines import Engines
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import Kind, MmluKey, SearchKey, Step, is_at_a_rate
from mlperf_suite.session.timing.estimate import rate_probe_samples
from mlperf_suite.session.timing.pace import Pace
from mlperf_suite.session.timing.probe import (
    Speed,
    measure_scaling,
    probe,
    probe_replicas,
    prompts_each,
)
from mlperf_suite.session.warm_up import warm_up, warm_up_prompts, warm_up_requests
from mlperf_suite.session.watcher import Watcher

_PROBE_PROMPTS = 32


class Preparation:
    """Prepares the engine of the runs, and warms it up before each of them."""

    def __init__(
        self, inputs: Inputs, engines: Engines, pace: Pace, energy: Energy, watcher: Watcher
    ) -> None:
        self._inputs = inputs
        self._settings = inputs.settings
        self._engines = engines
        self._pace = pace
        self._energy = energy
        self._watch = watcher

    @property
    def _engine(self) -> Engine:
        return self._engines.loaded("runs")

    def make(self, step: Step, folder: Path) -> object:
        """Make a step that prepares the engine. Returns what it measured.

        `folder`: for the engine's output, if it is loaded.
        """
        makers: dict[Kind, Callable[[], object]] = {
            "load": lambda: self._load(folder),
            "idle power": self._idle_power,
            "probe": self._probe,
            "scaling": self._scaling,
        }
        return makers[step.kind]()

    def _load(self, folder: Path) -> EngineDescription:
        """Load the engine of the runs, whose output goes to `folder`.

        Raises UsageError if a prompt does not fit its context, SuiteError if it does not load.
        """
        description = self._engines.get("runs", folder / ENGINE_LOG).description
        for benchmark in self._inputs.benchmarks:
            for mode in self._modes_of(benchmark):
                self._inputs.check_prompts(benchmark, description.max_model_len, mode)
        self._energy.open(description)
        return description

    def _modes_of(self, benchmark: Benchmark) -> set[Mode]:
        """The planned modes; performance for a search, which makes such runs."""
        return {
            key.mode if isinstance(key, RunKey) else "performance"
            for key in self._pace.plan.keys
            if not isinstance(key, MmluKey) and key.benchmark == benchmark.id
        }

    def _idle_power(self) -> Mapping[str, float]:
        """The power of the idle machine in W, by meter; empty without one."""
        if self._energy.metered:
            self._watch.begin("idle power, before any work")
        return self._energy.measure_idle()

    def _probe(self) -> Speed | None:
        """Measure the engine's speed; of several replicas, weigh each by its own.

        A stand-in engine is not probed: its delays are made up, and no run is shortened for it. Nor
        is an engine that is loaded again.
        """
        engine = self._engine
        if engine.description.stand_in or self._pace.speed is not None:
            return None
        benchmark, silence_s = self._inputs.benchmarks[0], self._settings.engine_silence
        self._watch.begin("probing the engine's speed")
        prompts = warm_up_prompts(self._inputs.prompts(benchmark), _PROBE_PROMPTS)
        generation = self._inputs.generation(benchmark)
        if isinstance(engine, ReplicatedEngine):
            speed, rates, cost = probe_replicas(engine, prompts, generation, silence_s)
            weighed = engine.weigh(rates, cost)
            if len(set(rates)) > 1:
                shares = ", ".join(f"{rate / max(rates):.2f}" for rate in rates)
                use = "requests are routed by it" if weighed else "their devices are the same"
                self._watch.say(f"speed of each replica, of the fastest: {shares} ({use})")
        else:
            speed = probe(engine, prompts, generation, silence_s=silence_s)
        return speed

    def _scaling(self) -> ScalingFigures:
        """Measure how all replicas compare with one."""
        self._watch.begin("measuring one replica alone, and all")
        engine, benchmark = self._engine, self._inputs.benchmarks[0]
        batch = engine.description.settings.get("max_num_seqs")
        count = prompts_each(batch, smoke=self._settings.smoke)
        return measure_scaling(
            engine,
            warm_up_prompts(self._inputs.prompts(benchmark), count),
            self._inputs.generation(benchmark),
            self._settings.engine_silence,
            self._watch.say,
        )

    def rate(self, step: Step) -> float:
        """The samples/s to plan for, measured with a few prompts of the benchmark's lengths.

        Measured once, so that all repeats have the same length.
        """
        assert isinstance(step.key, RunKey)
        benchmark = BENCHMARKS[step.key.benchmark]
        scenario = benchmark.scenario(step.key.scenario)
        self._watch.begin("measuring the rate to plan for")
        count = rate_probe_samples(scenario, smoke=self._settings.smoke)
        own = self._inputs.prompts(benchmark)
        prompts = warm_up_prompts(own, min(count, len(own)))
        stops = self._inputs.stops(benchmark, "performance") or [""]
        batches = [(prompts, stops)]
        if scenario.loadgen_scenario == "SingleStream":
            pairs = zip(prompts, cycle(stops), strict=False)
            batches = [([prompt], [stop]) for prompt, stop in pairs]
        generation, silence_s = self._inputs.generation(benchmark), self._settings.engine_silence
        elapsed_s = sum(
            generate_all(self._engine, batch, generation, silence_s, ends).elapsed_s
            for batch, ends in batches
        )
        return len(prompts) / elapsed_s

    def warm_up_for(self, key: RunKey | SearchKey) -> WarmUpFigures | None:
        """Warm the engine up for a planned run; None if that is switched off.

        Raises RunError if nothing shows the rate that the run is sent at.
        """
        benchmark = BENCHMARKS[key.benchmark]
        rate_qps = self._pace.server_qps(benchmark.id) if is_at_a_rate(key) else None
        return self.warm_up(benchmark, benchmark.scenario(key.scenario), rate_qps)

    def warm_up(
        self, benchmark: Benchmark, scenario: Scenario, rate_qps: float | None
    ) -> WarmUpFigures | None:
        """Warm the engine up for a run; None if that is switched off.

        `rate_qps`: queries/s that the run will be sent, if it has a rate.
        """
        engine = self._engine
        requests = warm_up_requests(
            scenario,
            self._settings.warmup,
            smoke=self._settings.smoke,
            engines=len(engine.replicas) if isinstance(engine, ReplicatedEngine) else 1,
        )
        if not requests:
            return None
        self._watch.begin(f"{benchmark.id} {scenario.name}: warm-up")
        return warm_up(
            engine,
            warm_up_prompts(self._inputs.prompts(benchmark), requests),
            self._pace.warm_up_generation(benchmark, scenario),
            scenario,
            rate_qps if scenario.limits else None,
            self._settings.engine_silence,
            self._inputs.stops(benchmark, "performance"),
        )
