"""How all replicas compare with one alone, for --scaling: measured in pairs, outside LoadGen."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlperf_suite.engines.batch import generate_all
from mlperf_suite.features.replicas.figures import ScalingFigures
from mlperf_suite.results.schema import CONFIDENCE

if TYPE_CHECKING:
    from mlperf_suite.benchmarks.definition import Generation
    from mlperf_suite.engines.protocol import Engine
    from mlperf_suite.features.replicas.engine import ReplicaEngine

PAIRS = 5
SMOKE_PROMPTS = 16
"""Prompts per replica in a smoke run, where a core generates about 200 tokens/s."""


def measure_scaling(
    engine: ReplicaEngine,
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
    replicas = engine.replicas
    # Longest first, as in a run.
    once = sorted(prompts, key=len, reverse=True)
    copies = [prompt for prompt in once for _ in replicas]

    def rate(of: Engine, batch: Sequence[Sequence[int]]) -> float:
        return generate_all(of, batch, generation, silence_s).tokens_per_s

    pairs = []
    for pair in range(PAIRS):
        # With an even number of replicas, each is measured in both orders.
        turn = pair + pair // 2 if len(replicas) % 2 == 0 else pair
        alone = [replicas[turn % len(replicas)]] if engine.alike else replicas
        together = 0.0 if pair % 2 else rate(engine, copies)
        alone_rate = statistics.fmean(rate(replica, once) for replica in alone)
        together = together or rate(engine, copies)
        pairs.append((alone_rate, together))
        share = together / (len(replicas) * alone_rate)
        say(
            f"pair {pair + 1}: {alone_rate:,.1f} tokens/s of one, "
            f"{together:,.1f} of all ({share:.1%})"
        )
    return scaling_figures(len(replicas), pairs)


def scaling_figures(replicas: int, pairs: Sequence[tuple[float, float]]) -> ScalingFigures:
    """The scaling figures of pairs of tokens/s: one engine alone (the mean over the engines if they
    differ) and all together.

    The interval is Student's t over the pairs' efficiencies; a single pair has none, and both ends
    are the efficiency itself.
    """
    from scipy.stats import t

    shares = [together / (replicas * alone) for alone, together in pairs]
    alone, together = (statistics.fmean(side) for side in zip(*pairs, strict=True))
    efficiency, count = together / (replicas * alone), len(shares)
    half = 0.0
    if count > 1:
        half = float(t.ppf((1 + CONFIDENCE) / 2, count - 1)) * statistics.stdev(shares) / count**0.5
    return ScalingFigures(
        replicas,
        count,
        round(alone, 3),
        round(together, 3),
        round(efficiency, 5),
        round(efficiency - half, 5),
        round(efficiency + half, 5),
    )
