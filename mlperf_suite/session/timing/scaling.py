"""Measures --scaling: one replica alone against all of them, before the runs, outside LoadGen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine, ReplicatedEngine
from mlperf_suite.results.scaling_efficiency import scaling_figures
from mlperf_suite.results.schema import ScalingFigures

PAIRS = 5
SMOKE_PROMPTS = 16
"""Prompts per replica in a smoke run, where a core generates about 200 tokens/s."""


def prompts_each(max_num_seqs: object, *, smoke: bool) -> int:
    """How many prompts a replica is given at a time: two full batches, or SMOKE_PROMPTS."""
    if smoke:
        return SMOKE_PROMPTS
    return 2 * max_num_seqs if isinstance(max_num_seqs, int) else 2 * 128


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
