"""Chooses engine settings that the user left open."""

from __future__ import annotations

from mlperf_suite.hardware import Chosen


def choose_tensor_parallel(gpus: int, heads: int, kv_heads: int, asked: int | None) -> Chosen[int]:
    """The number of GPUs to split a model over: `asked`, or the largest number possible.

    vLLM gives each GPU the same number of attention heads, and either the same number of KV heads
    or a copy of one (QKVParallelLinear). `gpus`: the available GPUs, 0 on a CPU. The reason names
    idle GPUs.
    """
    if asked is not None:
        return Chosen(asked, "as asked" + _idle(gpus, asked))
    if gpus <= 1:
        return Chosen(1, "auto: the only GPU" if gpus else "auto: no GPU")
    taken = max(n for n in range(1, gpus + 1) if _fits(n, heads, kv_heads))
    if taken == gpus:
        return Chosen(taken, f"auto: all {gpus} GPUs")
    over = " or ".join(map(str, range(taken + 1, gpus + 1)))
    why = f"auto: {heads} attention heads and {kv_heads} KV heads cannot be split over {over} GPUs"
    return Chosen(taken, why + _idle(gpus, taken))


def _fits(gpus: int, heads: int, kv_heads: int) -> bool:
    return heads % gpus == 0 and (kv_heads % gpus == 0 or gpus % kv_heads == 0)


def _idle(gpus: int, taken: int) -> str:
    """Names the GPUs that vLLM does not use: it takes the first ones."""
    idle = [str(index) for index in range(taken, gpus)]
    return f"; idle GPUs: {len(idle)} ({', '.join(idle)})" if idle else ""
