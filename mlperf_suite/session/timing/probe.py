"""Probes an engine's speed on this machine with a few seconds of work, to plan a run's length.

It works outside LoadGen. Its result is a prediction, accurate to a few tens of percent.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from statistics import harmonic_mean, mean, median
from typing import TYPE_CHECKING

from mlperf_suite.engines.batch import Answers, generate_all, requests_of
from mlperf_suite.engines.protocol import SILENCE_S, Engine, ReplicatedEngine, Tokens, TracingEngine
from mlperf_suite.session.timing.estimate import PROBE_S, Speed

if TYPE_CHECKING:
    from mlperf_suite.benchmarks.definition import Generation
    from mlperf_suite.results.schema import ScalingFigures

_FIRST_TOKENS = 4
_BATCHES = (64, 32, 16, 8, 4)
_LEAST_STEPS = 3
_LEAST_TOKENS, _MOST_TOKENS = 5, 32
_PREFILL_SHARE, _DECODE_SHARE = 0.4, 0.1
_USUAL_BATCH = 32
"""Requests in a step, used to estimate how long a token of an answer takes."""
_ANSWER_TOKEN = 1.9
"""What a request's token costs a step of many, in prompt tokens; on CPUs with AMX, with AVX-512's
bf16 and with neither it was 1.8, 2.0 and 2.1."""
_ALIKE = 0.9
"""Replicas count as alike if the slowest has more than this share of the fastest one's speed."""


def probe(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    budget_s: float = PROBE_S,
    silence_s: float = SILENCE_S,
) -> Speed:
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
    tokens = min(max(tokens, _LEAST_TOKENS), _MOST_TOKENS)
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
    if large < _USUAL_BATCH:
        # What a request adds to a step of few does not show above the step's own cost.
        request_s = max(request_s, _ANSWER_TOKEN * prefill_s)
    return Speed(
        prefill_s,
        step_s,
        request_s,
        engine.description.at_once,
        time.monotonic() - start_s,
    )


def probe_replicas(
    engine: ReplicatedEngine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    silence_s: float = SILENCE_S,
) -> tuple[Speed, list[float], float]:
    """Probe all replicas at the same time, as they will work in a run.

    Returns the speed of all together, the speed of each relative to the others, and how many times
    as long a prompt token takes as an answer token. Raises as `probe` does.
    """
    alone = engine.replicas
    with ThreadPoolExecutor(len(alone)) as threads:
        futures = [
            threads.submit(probe, replica, prompts, generation, silence_s=silence_s)
            for replica in alone
        ]
        speeds = [future.result() for future in futures]
    lengths = [len(prompt) for prompt in prompts]
    rates = [1 / max(s.batch_s(lengths, generation.max_new_tokens), 1e-9) for s in speeds]
    if min(rates) > _ALIKE * max(rates):
        # Between engines that are alike, the differences of a short probe are noise.
        rates = [1.0] * len(rates)
    limits = [speed.at_once for speed in speeds]
    numbers = [limit for limit in limits if limit is not None]
    # Work is shared by all, each of which takes as long for it as it would alone.
    together = Speed(
        harmonic_mean([speed.prefill_s for speed in speeds]) / len(speeds),
        mean(speed.step_s for speed in speeds),
        harmonic_mean([speed.request_s for speed in speeds]) / len(speeds),
        sum(numbers) if len(numbers) == len(limits) else None,
        max(speed.probe_s for speed in speeds),
    )
    answer_s = sum(speed.step_s / _USUAL_BATCH + speed.request_s for speed in speeds)
    prompt_s = sum(speed.prefill_s for speed in speeds)
    return together, rates, prompt_s / answer_s if answer_s else 0.0


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


class _Clock(Answers):
    """Records when the last request had its first token, and when it ended."""

    first_s = end_s = 0.0

    def first_tokens(self, told: Sequence[Tokens]) -> None:
        self.first_s = time.perf_counter()
        super().first_tokens(told)

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
    return median(between) if len(between) >= _LEAST_STEPS else None


# One replica alone against all of them, for --scaling

PAIRS = 5
SMOKE_PROMPTS = 16
"""Prompts per replica in a smoke run, where a core generates about 200 tokens/s."""


def measure_scaling(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    silence_s: float,
    say: Callable[[str], None],
) -> ScalingFigures:
    """The tokens/s of one replica with these prompts, and of all with as many copies of them.

    The order changes from pair to pair, and so does the replica measured alone. If replicas have
    different devices, each is measured alone in every pair, one after another, and their mean is
    the rate of one. Raises EngineError.
    """
    assert isinstance(engine, ReplicatedEngine)
    replicas = engine.replicas
    # Longest first, as in a run.
    once = sorted(prompts, key=len, reverse=True)
    copies = [prompt for prompt in once for _ in replicas]

    def rate(of: Engine, batch: Sequence[Sequence[int]]) -> float:
        return generate_all(of, batch, generation, silence_s).tokens_per_s

    from mlperf_suite.results.record import scaling_figures

    pairs = []
    for pair in range(PAIRS):
        # With an even number of replicas, each is measured in both orders.
        turn = pair + pair // 2 if len(replicas) % 2 == 0 else pair
        alone = [replicas[turn % len(replicas)]] if engine.alike else replicas
        together = 0.0 if pair % 2 else rate(engine, copies)
        alone_rate = mean(rate(replica, once) for replica in alone)
        together = together or rate(engine, copies)
        pairs.append((alone_rate, together))
        share = together / (len(replicas) * alone_rate)
        say(
            f"pair {pair + 1}: {alone_rate:,.1f} tokens/s of one, "
            f"{together:,.1f} of all ({share:.1%})"
        )
    return scaling_figures(len(replicas), pairs)
