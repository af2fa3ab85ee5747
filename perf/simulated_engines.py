"""Simulated engines with 10,000 settings each, 5% noise from run to run and a known optimum.

The search was developed on `one_optimum`, `serving_engine` and `roofline`; `any_shapes` and
`drifting` were written before and looked at only after it was done.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

from mlperf_suite.features.tuning.space import Choice, Settings, Space, Trial

NOISE = 0.05
TRIALS = 60
RATE = 1000.0
_WEIGHTS = {"batch": 0.06, "tokens": 0.03, "block": 0.015, "threads": 0.008}


class SimulatedEngine:
    """`share`: the rate without noise as a share of the optimum's, None if the engine fails.
    `deviations`: draws by how many standard deviations a run's logarithm differs."""

    def __init__(
        self,
        space: Space,
        share: Callable[[Settings], float | None],
        seed: int,
        deviations: Callable[[random.Random], float] = lambda source: source.gauss(0, 1),
    ) -> None:
        self.space, self.share = space, share
        self._random, self._deviations = random.Random(f"noise {seed}"), deviations  # noqa: S311

    def measure(self, settings: Settings) -> Trial:
        """One run."""
        share = self.share(settings)
        if share is None:
            return Trial(settings, reason="out of memory")
        return Trial(settings, RATE * share * self.noise(), NOISE)

    def noise(self) -> float:
        """The factor by which one run differs."""
        return math.exp(NOISE * self._deviations(self._random))


def relative(
    space: Space, log_rate: Callable[[Settings], float | None]
) -> Callable[[Settings], float | None]:
    """Shares of the highest rate of the space."""
    every = (dict(zip(space, values, strict=True)) for values in itertools.product(*space.values()))
    highest = max(log for settings in every if (log := log_rate(settings)) is not None)

    def share(settings: Settings) -> float | None:
        log = log_rate(settings)
        return None if log is None else math.exp(log - highest)

    return share


def one_optimum(seed: int) -> SimulatedEngine:
    """Four settings of ten numbers; the rate falls with the distance of each from its best."""
    space = {name: tuple(range(10)) for name in _WEIGHTS}
    source = random.Random(f"engine {seed}")  # noqa: S311
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
    source = random.Random(f"engine {seed}")  # noqa: S311
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

    return SimulatedEngine(space, relative(space, log_rate), seed)


def roofline(seed: int) -> SimulatedEngine:
    """Six settings of an engine whose time a token is a sum of decoding, prefill and the host's
    work, so that no setting's effect adds to another's; swapping and a limit of memory."""
    space: dict[str, tuple[Choice, ...]] = {
        "max_num_seqs": (None, *(2**n for n in range(3, 12))),
        "max_num_batched_tokens": (None, *(2**n for n in range(9, 17))),
        "block_size": (None, 16, 32, 64, 128),
        "kv_cache_dtype": (None, "fp8"),
        "enforce_eager": (None, True, False),
        "threads": (None, 1, 2, 4, 8),
    }
    source = random.Random(f"roof {seed}")  # noqa: S311
    usual_seqs, usual_tokens = 2 ** source.uniform(4, 9), 2 ** source.uniform(9, 14)
    usual_threads = source.choice((1, 2, 4, 8))
    knee, half = 2 ** source.uniform(4, 9), 2 ** source.uniform(9, 13)
    prefill_share, host = source.uniform(0.02, 0.2), source.uniform(0.5, 3)
    room, fp8 = 2 ** source.uniform(9, 14), source.uniform(-0.05, 0.1)
    eager, best_threads = source.uniform(0, 0.25), source.uniform(0, 3)
    block = {choice: source.uniform(0, 0.04) for choice in space["block_size"]}
    memory = 1.5 * 2 ** source.uniform(14, 18)

    def log_rate(settings: Settings) -> float | None:
        seqs = _number(settings["max_num_seqs"] or usual_seqs)
        tokens = _number(settings["max_num_batched_tokens"] or usual_tokens)
        threads = math.log2(_number(settings["threads"] or usual_threads))
        is_fp8 = settings["kv_cache_dtype"] == "fp8"
        held = seqs * (0.6 if is_fp8 else 1.0)
        if held * 40 + tokens * 4 > memory:
            return None
        decode = seqs / (seqs + knee)
        prefill = tokens / (tokens + half) / (1 + tokens / 2**16)
        work = host * math.exp(-0.15 * (threads - best_threads) ** 2)
        swapping = 1 + 0.3 * max(0.0, held * 8 / room - 1)
        time = (1 / decode + 3 * prefill_share / prefill + 1 / work) * swapping
        switches = fp8 * is_fp8 - eager * (settings["enforce_eager"] is True)
        return switches - block[settings["block_size"]] - math.log(time)

    return SimulatedEngine(space, relative(space, log_rate), seed)


def any_shapes(seed: int) -> SimulatedEngine:
    """Three numbers of shapes drawn anew for each engine, two words, one pair that depends on each
    other; outliers (Student's t of 4 degrees of freedom, scaled to 5%)."""
    numbers = {"a": 10, "b": 10, "c": 5}
    space: dict[str, tuple[Choice, ...]] = {
        name: tuple(2**n for n in range(count)) for name, count in numbers.items()
    }
    space |= {"d": ("v", "w", "x", "y", "z"), "e": (None, "x", "y", "z")}
    source = random.Random(f"any {seed}")  # noqa: S311
    effects: dict[str, dict[Choice, float]] = {
        name: dict(zip(space[name], _any_shape(count, source), strict=True))
        for name, count in numbers.items()
    }
    effects |= {name: {c: source.gauss(0, 0.05) for c in space[name]} for name in "de"}
    together = source.uniform(-0.15, 0.15)

    def log_rate(settings: Settings) -> float:
        places = [math.log2(_number(settings[name])) / 9 - 0.5 for name in "ab"]
        alone = sum(effects[name][choice] for name, choice in settings.items())
        return alone + 4 * together * places[0] * places[1]

    def deviations(draw: random.Random) -> float:
        # The variance of t with 4 degrees of freedom is 2.
        return draw.gauss(0, 1) / math.sqrt(draw.gammavariate(2, 2) / 4) / math.sqrt(2)

    return SimulatedEngine(space, relative(space, log_rate), seed, deviations)


def _any_shape(count: int, source: random.Random) -> list[float]:
    places = [index / (count - 1) for index in range(count)]
    size, centre = 0.03 * 13 ** source.random(), source.uniform(0, 1)
    kind = source.choice(("line", "saturation", "peak", "step"))
    if kind == "line":
        return [size * place for place in places]
    if kind == "saturation":
        return [-2 * size * math.exp(-place / 0.2) for place in places]
    if kind == "peak":
        return [-4 * size * (place - centre) ** 2 for place in places]
    return [size * (place > centre) for place in places]


def drifting(seed: int) -> SimulatedEngine:
    """Four numbers with a peak that falls faster on one side than on the other; of the noise, 3%
    drift slowly (each run keeps 90% of what the last one had) and 4% are each run's own."""
    space = {name: tuple(2**n for n in range(10)) for name in _WEIGHTS}
    source = random.Random(f"drift {seed}")  # noqa: S311
    best = {name: source.uniform(0, 9) for name in space}
    sides = {name: (source.uniform(0.005, 0.06), source.uniform(0.005, 0.06)) for name in space}

    def log_rate(settings: Settings) -> float:
        away = {name: math.log2(_number(settings[name])) - best[name] for name in space}
        return -math.fsum(sides[name][d > 0] * abs(d) ** 1.3 for name, d in away.items())

    state = [0.0]

    def deviations(draw: random.Random) -> float:
        state[0] = 0.9 * state[0] + draw.gauss(0, 0.6 * math.sqrt(1 - 0.9**2))
        return state[0] + draw.gauss(0, 0.8)

    return SimulatedEngine(space, relative(space, log_rate), seed, deviations)


def equal_settings(seed: int) -> SimulatedEngine:
    """Ten thousand settings that change nothing."""
    return SimulatedEngine(one_optimum(seed).space, lambda _: 1.0, seed)


def _number(choice: Choice) -> float:
    assert isinstance(choice, int | float)
    return float(choice)
