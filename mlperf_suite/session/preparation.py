"""The steps before the runs: the engine is loaded, measured and warmed up.

They work outside LoadGen. What they measure is recorded, and not judged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Generation, Scenario
from mlperf_suite.datasets.media import MediaPrompt
from mlperf_suite.engines.batch import AnswerCollector, generate_all, requests_of
from mlperf_suite.engines.protocol import SILENCE_S, Engine, EngineDescription
from mlperf_suite.results.run_folder import ENGINE_LOG
from mlperf_suite.results.schema import WarmUpFigures
from mlperf_suite.session.load_run import StepMaker
from mlperf_suite.session.run_kind import BenchmarkAndScenario, Step
from mlperf_suite.session.timing.estimate import EngineSpeed, rate_probe_samples, warm_up_requests
from mlperf_suite.session.timing.probe import ProbedEngine, probe

_PROBE_PROMPTS = 32
_WAYS = {"Offline": "all at once", "SingleStream": "one after another"}


def warm_up_prompts(prompts: Sequence[Sequence[int]], count: int) -> list[Sequence[int]]:
    """`count` prompts of the benchmark's lengths with different content.

    Each is a sample's prompt in reverse, or one with its media reversed, so that it cannot put the
    sample itself into a cache.
    """
    chosen = (prompts[i % len(prompts)] for i in range(count))
    return [p.other() if isinstance(p, MediaPrompt) else list(reversed(p)) for p in chosen]


def warm_up(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    scenario: Scenario,
    rate_qps: float | None = None,
    silence_s: float = SILENCE_S,
    stops: Sequence[str] = (),
) -> WarmUpFigures:
    """Answer the prompts as the scenario sends them: at once, at a rate, or one after another.

    `rate_qps`: queries/s that the run will be sent, if it has a rate. `stops`: the text after
    which each answer ends, repeated from the start if too few. Raises EngineError if the engine
    refuses a request, dies or hangs.
    """
    answers, requests = AnswerCollector(len(prompts)), requests_of(prompts, stops)
    way = _WAYS.get(scenario.loadgen_scenario) or f"at {rate_qps or math.inf:g} queries/s"
    start_s = time.monotonic()
    if scenario.loadgen_scenario == "Offline":
        engine.submit(requests, generation, answers, stream=False)
    else:
        for number, request in enumerate(requests, 1):
            engine.submit([request], generation, answers, stream=True)
            remaining = len(requests) - number
            if scenario.loadgen_scenario == "SingleStream":
                answers.wait(engine, silence_s, until_waiting=remaining)
            elif rate_qps and remaining:
                answers.watch_for(1 / rate_qps, engine, silence_s)
    answers.wait(engine, silence_s)
    return WarmUpFigures(
        requests=len(requests),
        tokens=sum(map(len, answers.token_ids)),
        elapsed_s=round(time.monotonic() - start_s, 3),
        what=f"prompts of the samples' lengths, {way}",
    )


class Preparation(StepMaker):
    """Prepares the engine of the runs, and warms it up before each of them."""

    def load(self, folder: Path) -> EngineDescription:
        """Load the engine of the runs, whose output goes to `folder`.

        Raises UsageError if a prompt does not fit its context, SuiteError if it does not load.
        """
        engine = self.engines.get("runs", folder / ENGINE_LOG)
        description = engine.description
        for key in self.sizing.plan.at_engine:
            benchmark = BENCHMARKS[key.benchmark]
            self.inputs.check_prompts(benchmark, description.max_model_len, key.mode)
        for companion in self.companions:
            companion.loaded(engine)
        return description

    def probe(self) -> EngineSpeed | None:
        """Measure the engine's speed; of several replicas, weigh each by its own.

        A stand-in engine is not probed: its delays are made up, and no run is shortened for it. Nor
        is an engine that is loaded again.
        """
        engine = self.engine
        if engine.description.stand_in or self.sizing.estimator.speed is not None:
            return None
        benchmark, silence_s = self.inputs.benchmarks[0], self.settings.engine_silence
        self.display.begin("probing the engine's speed")
        prompts = warm_up_prompts(self.inputs.prompts(benchmark), _PROBE_PROMPTS)
        generation = self.inputs.generation(benchmark)
        if isinstance(engine, ProbedEngine):
            return engine.probe_speed(prompts, generation, silence_s, self.display.say)
        return probe(engine, prompts, generation, silence_s=silence_s)

    def rate(self, step: Step) -> float:
        """An estimate of the samples/s, measured with a few prompts of the benchmark's lengths.

        Measured once, so that all repeats have the same length.
        """
        benchmark = BENCHMARKS[step.key.benchmark]
        scenario = benchmark.scenario(step.key.scenario)
        self.display.begin("estimating the rate")
        count = rate_probe_samples(scenario, smoke=self.settings.smoke)
        own = self.inputs.prompts(benchmark)
        prompts = warm_up_prompts(own, min(count, len(own)))
        stops = self.inputs.stops(benchmark, "performance") or [""]
        batches = [(prompts, stops)]
        if scenario.loadgen_scenario == "SingleStream":
            pairs = zip(prompts, cycle(stops), strict=False)
            batches = [([prompt], [stop]) for prompt, stop in pairs]
        generation, silence_s = self.inputs.generation(benchmark), self.settings.engine_silence
        elapsed_s = sum(
            generate_all(self.engine, batch, generation, silence_s, ends).elapsed_s
            for batch, ends in batches
        )
        return len(prompts) / elapsed_s

    def warm_up(
        self, place: BenchmarkAndScenario, rate_qps: float | None = None
    ) -> WarmUpFigures | None:
        """Warm the engine up for a run; None if that is switched off.

        `rate_qps`: queries/s that Server will be sent, None for those of a planned run. Raises
        RunError if nothing shows that rate.
        """
        engine, benchmark = self.engine, BENCHMARKS[place[0]]
        scenario = benchmark.scenario(place[1])
        if rate_qps is None and scenario.loadgen_scenario == "Server":
            rate_qps = self.sizing.server_qps(benchmark.id)
        requests = warm_up_requests(
            scenario,
            self.settings.warmup,
            smoke=self.settings.smoke,
            engines=engine.description.engines,
        )
        if not requests:
            return None
        self.display.begin(f"{benchmark.id} {scenario.name}: warm-up")
        return warm_up(
            engine,
            warm_up_prompts(self.inputs.prompts(benchmark), requests),
            self.sizing.estimator.warm_up_generation(
                benchmark, scenario, self.inputs.generation(benchmark)
            ),
            scenario,
            rate_qps if scenario.limits else None,
            self.settings.engine_silence,
            self.inputs.stops(benchmark, "performance"),
        )
