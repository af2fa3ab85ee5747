"""--scaling: one replica alone beside all of them, before the runs and outside LoadGen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine, ReplicatedEngine
from mlperf_suite.results.replica_scaling import scaling_figures
from mlperf_suite.results.schema import ScalingFigures

PAIRS = 5
SMOKE_PROMPTS = 16
"""Of each replica, in a smoke run, where a core makes about 200 tokens/s."""


def prompts_each(max_num_seqs: object, *, smoke: bool) -> int:
    """The prompts that a replica is given at a time: two full batches."""
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

    Which comes first changes from pair to pair, and so does the replica. Raises EngineError.
    """
    assert isinstance(engine, ReplicatedEngine)
    replicas = engine.replicas
    # Longest first, as in a run.
    once = sorted(prompts, key=len, reverse=True)
    copies = [prompt for prompt in once for _ in replicas]
    pairs = []
    for pair in range(PAIRS):
        alone = replicas[pair % len(replicas)]
        sides: list[tuple[Engine, Sequence[Sequence[int]]]] = [(alone, once), (engine, copies)]
        rates = [
            generate_all(one, some, generation, silence_s).tokens_per_s
            for one, some in (sides if pair % 2 else reversed(sides))
        ]
        one, together = rates if pair % 2 else reversed(rates)
        pairs.append((one, together))
        share = together / (len(replicas) * one)
        say(f"pair {pair + 1}: {one:,.1f} tokens/s of one, {together:,.1f} of all ({share:.1%})")
    return scaling_figures(len(replicas), pairs)
