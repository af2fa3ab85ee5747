"""Simulated engines with 10,000 settings each, 5% noise from run to run and a known optimum."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

from mlperf_suite.tuning.space import Choice, Settings, Space, Trial

NOISE = 0.05
TRIALS = 60
_RATE = 1000.0
_WEIGHTS = {"batch": 0.06, "tokens": 0.03, "block": 0.015, "threads": 0.008}


class SimulatedEngine:
    """`share`: the rate without noise as a share of the optimum's, None if the engine fails."""

    def __init__(self, space: Space, share: Callable[[Settings], float | None], seed: int) -> None:
        self.space, self.share = space, share
        self._random = random.Random(f"noise {seed}")

    def measure(self, settings: Settings) -> Trial:
        """One run."""
        share = self.share(settings)
        if share is None:
            return Trial(settings, reason="out of memory")
        return Trial(settings, _RATE * share * self.noise(), NOISE)

    def noise(self) -> float:
        """The factor by which one run differs."""
        return math.exp(self._random.gauss(0, NOISE))


def one_optimum(seed: int) -> SimulatedEngine:
    """Four settings of ten numbers; the rate falls with the distance of each from its best."""
    space = {name: tuple(range(10)) for name in _WEIGHTS}
    source = random.Random(f"engine {seed}")
    best = {name: source.randrange(10) for name in space}

    def share(settings: Settings) -> float:
        away = {name: abs(_number(settings[name]) - best[name]) for name in space}
        return math.exp(-sum(w * away[name] ** 1.3 for name, w in _WEIGHTS.items()))

    return SimulatedEngine(space, share, seed)


def serving_engine(seed: int) -> SimulatedEngine:
    """Six settings as vLLM has them: saturation, two that depend on each other, a limit of memory
    beyond which the engine fails, words and switches; the default's numbers are not known."""
    space: dict[str, tuple[Choice, ...]] = {
        "max_num_seqs": (None, *(2**n for n in range(3, 12))),
        "max_num_batched_tokens": (None, *(2**n for n in range(9, 18))),
        "block_size": (None, 8, 16, 32, 64),
        "kv_cache_dtype": (None, "fp8"),
        "enable_chunked_prefill": (None, False),
        "VLLM_CPU_OMP_THREADS_BIND": (None, "0", "0,1", "0-3", "0-7"),
    }
    source = random.Random(f"engine {seed}")
    knee, tokens_best = source.uniform(3, 7), source.uniform(3, 8)
    fall, slope = source.uniform(0.01, 0.04), source.uniform(0.02, 0.05)
    both = source.uniform(0, 0.03)
    memory = source.uniform(10, 16)
    fp8, whole = source.uniform(-0.05, 0.08), source.uniform(-0.08, 0.08)
    block = {value: source.uniform(0, 0.06) for value in space["block_size"]}
    bind = {value: source.uniform(0, 0.4) for value in space["VLLM_CPU_OMP_THREADS_BIND"]}

    def log_rate(settings: Settings) -> float | None:
        seqs = math.log2(_number(settings["max_num_seqs"] or 256)) - 2
        tokens = math.log2(_number(settings["max_num_batched_tokens"] or 4096)) - 8
        is_fp8 = settings["kv_cache_dtype"] == "fp8"
        if seqs + tokens - is_fp8 > memory:
            return None
        saturation = -0.15 * math.exp(-(seqs - knee) / 1.2) - fall * max(0.0, seqs - knee)
        prefill = -slope * abs(tokens - tokens_best) ** 1.3 - both * max(0.0, seqs - tokens)
        switches = fp8 * is_fp8 * (1 if seqs > knee else 0.5)
        switches += whole * (settings["enable_chunked_prefill"] is False)
        words: float = block[settings["block_size"]] + bind[settings["VLLM_CPU_OMP_THREADS_BIND"]]
        return float(saturation + prefill + switches - words)

    every = (dict(zip(space, values, strict=True)) for values in itertools.product(*space.values()))
    highest = max(log for settings in every if (log := log_rate(settings)) is not None)

    def share(settings: Settings) -> float | None:
        log = log_rate(settings)
        return None if log is None else math.exp(log - highest)

    return SimulatedEngine(space, share, seed)


def equal_settings(seed: int) -> SimulatedEngine:
    """Ten thousand settings that change nothing."""
    return SimulatedEngine(one_optimum(seed).space, lambda _: 1.0, seed)


def _number(choice: Choice) -> float:
    assert isinstance(choice, int | float)
    return float(choice)
