"""Probes an engine's speed on this machine with a few seconds of work, to plan a run's length.

It works outside LoadGen. Its result is a prediction, accurate to a few tens of percent.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from statistics import median
from typing import Protocol, runtime_checkable

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import AnswerCollector, requests_of
from mlperf_suite.engines.protocol import SILENCE_S, Engine, Tokens, TracingEngine
from mlperf_suite.session.timing.estimate import PROBE_S, EngineSpeed

_FIRST_TOKENS = 4
_BATCHES = (64, 32, 16, 8, 4)
_MIN_STEPS = 3
_MIN_TOKENS, _MAX_TOKENS = 5, 32
_PREFILL_SHARE, _DECODE_SHARE = 0.4, 0.1
USUAL_BATCH = 32
"""Requests in a step, used to estimate how long a token of an answer takes."""
_ANSWER_TOKEN = 1.9
"""What a request's token costs a step of many, in prompt tokens; on CPUs with AMX, with AVX-512's
bf16 and with neither it was 1.8, 2.0 and 2.1."""


@runtime_checkable
class ProbedEngine(Protocol):
    """An engine whose speed is found in a way of its own."""

    def probe_speed(
        self,
        prompts: Sequence[Sequence[int]],
        generation: Generation,
        silence_s: float,
        say: Callable[[str], None],
    ) -> EngineSpeed:
        """See `probe`. `say`: receives notes, in lines."""


def probe(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    budget_s: float = PROBE_S,
    silence_s: float = SILENCE_S,
) -> EngineSpeed:
    """Time the prefill and decode of two batches, on a loaded engine that has no work.

    `prompts`: at least 16 different ones, with the lengths to plan for. The slower the engine, the
    smaller the batches and the fewer the tokens. Raises ValueError if there are fewer prompts,
    EngineError if the engine refuses one, dies or hangs.
    """
    if len(prompts) < 16:
        raise ValueError(f"a probe takes at least 16 prompts, not {len(prompts)}")
    start_s = time.monotonic()

    def time_requests(first: int, count: int, tokens: int) -> _Timing:
        # The same length for all, so that no answer ends before the others.
        fixed = replace(generation, max_new_tokens=tokens, min_new_tokens=tokens)
        return _time_batch(engine, prompts[first : first + count], fixed, silence_s)

    alone = time_requests(0, 1, _FIRST_TOKENS)
    per_token_s = max(0.0, alone.prefill_s - alone.step_s) / alone.prompt_tokens
    fitting = (
        size
        for size in _BATCHES
        if size < len(prompts)
        and per_token_s * sum(map(len, prompts[1 : 1 + size])) <= _PREFILL_SHARE * budget_s
    )
    large = next(fitting, _BATCHES[-1])
    small = large // 4
    tokens = round(_DECODE_SHARE * budget_s / max(alone.step_s, 1e-6))
    tokens = min(max(tokens, _MIN_TOKENS), _MAX_TOKENS)
    large_timing = time_requests(1, large, tokens)
    small_timing = time_requests(len(prompts) - small, small, tokens)
    if time.monotonic() - start_s < budget_s:
        # The first batch of a size takes longer than any later one.
        again = time_requests(1, large, tokens)
        large_timing = replace(
            large_timing,
            prefill_s=min(large_timing.prefill_s, again.prefill_s),
            step_s=min(large_timing.step_s, again.step_s),
        )
    step_s, request_s = fit_step((small, small_timing.step_s), (large, large_timing.step_s))
    # A prefill includes a step, whose own cost is subtracted; at least half stays the prompts'.
    prefill_s = max(large_timing.prefill_s - step_s, large_timing.prefill_s / 2)
    prefill_s /= large_timing.prompt_tokens
    if large < USUAL_BATCH:
        # What a request adds to a step of few does not show above the step's own cost.
        request_s = max(request_s, _ANSWER_TOKEN * prefill_s)
    return EngineSpeed(
        prefill_s,
        step_s,
        request_s,
        engine.description.at_once,
        time.monotonic() - start_s,
    )


def fit_step(small: tuple[int, float], large: tuple[int, float]) -> tuple[float, float]:
    """a and b of a step that takes a + b x requests, neither below 0.

    `small`, `large`: the requests in a step and how long it took, in s.
    """
    (few, few_s), (many, many_s) = small, large
    slope = max(0.0, (many_s - few_s) / (many - few))
    if slope * few <= few_s:
        return (few_s - slope * few if slope else (few_s + many_s) / 2), slope
    # Noise can make the larger batch cost more than its share: fit a line through the origin.
    return 0.0, (few * few_s + many * many_s) / (few**2 + many**2)


@dataclass(frozen=True, slots=True)
class _Timing:
    """`prefill_s`: until every request had its first token; `step_s`: each step after that."""

    prompt_tokens: int
    prefill_s: float
    step_s: float


class _Clock(AnswerCollector):
    """Records when the last request had its first token, and when it ended."""

    first_s = end_s = 0.0

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        self.first_s = time.perf_counter()
        super().first_tokens(tokens)

    def finished(self, answers: Sequence[Tokens]) -> None:
        self.end_s = time.perf_counter()
        super().finished(answers)


def _time_batch(
    engine: Engine, prompts: Sequence[Sequence[int]], generation: Generation, silence_s: float
) -> _Timing:
    clock = _Clock(len(prompts))
    # The order in which a run submits them.
    requests = requests_of(sorted(prompts, key=len, reverse=True))
    if isinstance(engine, TracingEngine):
        engine.take_trace()  # what came before
    start_s = time.perf_counter()
    engine.submit(requests, generation, clock, stream=True)
    clock.wait(engine, silence_s)
    steps = max(1, generation.max_new_tokens - 1)
    mean_s = max(0.0, clock.end_s - clock.first_s) / steps
    return _Timing(
        sum(map(len, prompts)),
        max(0.0, clock.first_s - start_s),
        _usual_step_s(engine, len(prompts)) or mean_s,
    )


def _usual_step_s(engine: Engine, requests: int) -> float | None:
    """The median time of the steps that made a token for every request; None if not known.

    Other work on the machine lengthens a step or two, and so the mean. Data-parallel engines make
    steps of their own, each for its share of the requests.
    """
    if not isinstance(engine, TracingEngine):
        return None
    steps = engine.take_trace().steps
    engines = steps.replica or repeat(0, len(steps.tokens))
    of_engines = defaultdict[int, list[tuple[float, int]]](list)
    for number, end_s, tokens in zip(engines, steps.ended_s, steps.tokens, strict=True):
        of_engines[number].append((end_s, tokens))
    shares = {number: max(tokens for _, tokens in of) for number, of in of_engines.items()}
    if sum(shares.values()) != requests:
        return None
    between = []
    for number, of in of_engines.items():
        full = [end_s for end_s, tokens in of if tokens == shares[number]]
        between += [after - before for before, after in pairwise(full)]
    return median(between) if len(between) >= _MIN_STEPS else None
