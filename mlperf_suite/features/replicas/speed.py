"""The speed of replicas, which are probed at the same time, as they work in a run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import harmonic_mean, mean
from typing import TYPE_CHECKING

from mlperf_suite.session.timing.estimate import EngineSpeed
from mlperf_suite.session.timing.probe import USUAL_BATCH, probe

if TYPE_CHECKING:
    from mlperf_suite.benchmarks.definition import Generation
    from mlperf_suite.engines.protocol import Engine

_ALIKE = 0.9
"""Replicas count as alike if the slowest has more than this share of the fastest one's speed."""


def probe_replicas(
    alone: Sequence[Engine],
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    silence_s: float,
) -> tuple[EngineSpeed, list[float], float]:
    """The speed of all together, the speed of each relative to the others, and how many times as
    long a prompt token takes as an answer token. Raises as `probe` does."""
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
    together = EngineSpeed(
        harmonic_mean([speed.prefill_s for speed in speeds]) / len(speeds),
        mean(speed.step_s for speed in speeds),
        harmonic_mean([speed.request_s for speed in speeds]) / len(speeds),
        sum(numbers) if len(numbers) == len(limits) else None,
        max(speed.probe_s for speed in speeds),
    )
    answer_s = sum(speed.step_s / USUAL_BATCH + speed.request_s for speed in speeds)
    prompt_s = sum(speed.prefill_s for speed in speeds)
    return together, rates, prompt_s / answer_s if answer_s else 0.0
