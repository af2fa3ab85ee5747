"""Makes the untimed warm-up before each LoadGen run: outside LoadGen, recorded, not judged."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from mlperf_suite.benchmarks.definition import Generation, Scenario
from mlperf_suite.engines.batch import Answers, requests_of
from mlperf_suite.engines.protocol import SILENCE_S, Engine
from mlperf_suite.results.schema import WarmUpFigures

SMOKE_REQUESTS, OFFICIAL_REQUESTS = 4, 64
WARM_UP_ANSWER_TOKENS = 256
"""The longest answer of a warm-up, in tokens."""
SMOKE_ANSWER_TOKENS, SMOKE_WARM_UP_S = (32, 16, 8), 6.0
"""A smoke run's warm-up uses the longest of these answers, in tokens, with which it fits this
time, in s: each of its steps takes as long as a step of the run."""
_ONE_BY_ONE = 2
"""SingleStream is warm after this few requests, since it sends each alone."""
_WAYS = {"Offline": "all at once", "SingleStream": "one after another"}


def warm_up_prompts(prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """`count` prompts of the benchmark's lengths with different content.

    Each is a sample's prompt in reverse, so that it cannot put the sample itself into a prefix
    cache.
    """
    return [list(reversed(prompts[i % len(prompts)])) for i in range(count)]


def warm_up_requests(
    scenario: Scenario, count: int | None, *, smoke: bool, engines: int = 1
) -> int:
    """How many requests warm up a run of this scenario.

    `count`: what the user gave, or None. `engines`: how many share the requests; each should
    be as warm as a single one.
    """
    if count is not None:
        return count
    if scenario.loadgen_scenario == "SingleStream":
        return _ONE_BY_ONE * engines
    return (SMOKE_REQUESTS if smoke else OFFICIAL_REQUESTS) * engines


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
    answers, requests = Answers(len(prompts)), requests_of(prompts, stops)
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
