"""The blocks of the audit and their statistic: how much faster is one repeated sample? Pure.

Blocks come in pairs, one of each kind in random order. A `mix` block has samples that the system
has never seen; a `same` block repeats one sample of the same length in tokens. Without a cache both
do the same work. docs/caching-audit.md describes the design, the error rates and the measurements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from mlperf_suite.benchmarks.audits import Audit
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.session.timing.estimate import AFTER_RUN_S, EngineSpeed, Estimator

MODE = "caching"
"""The mode of the audit's runs and the subject of its rules."""
MIX = Audit(MODE, queries=1, logged=1, unique=True)
SAME = Audit(MODE, queries=1, logged=1, same=True)
"""The two kinds of block: different samples each time, and one sample over and over. The number of
queries in each depends on the speed of the system."""
Finding = Literal["no caching", "caching", "cannot tell"]
Kind = Literal["mix", "same"]
MAX_SPEEDUP = 0.10
"""TEST04's limit, as a share: one repeated sample may be this much faster."""
LOOKS = (10, 20, 30)
"""The numbers of pairs after which the audit computes the interval; it ends if that decides."""
RISK = 0.005
"""The largest probability of a wrong finding of one kind: caching if there is none, or none if
there is."""
ANSWER_TOKENS = 2
"""The tokens of each answer: LoadGen counts fewer as an error, and more would hide the prompt's
share of the time, on which every cache saves."""


@dataclass(frozen=True, slots=True)
class Block:
    """One LoadGen run of the audit: its kind, and its logs."""

    kind: Kind
    logs: RunLogs

    @property
    def seconds(self) -> float | None:
        """From LoadGen's issue of the query to its last answer; None if the log does not say."""
        latency_ns = self.logs.detail.number("result_max_latency_ns")
        return None if latency_ns is None or latency_ns <= 0 else latency_ns / 1e9


@dataclass(frozen=True, slots=True)
class Caching:
    """All measurements of an audit: `blocks` in the order in which they ran, two per pair.

    `at_once`: the samples of a block. `cached_tokens`: the prompt tokens that the engine took from
    a cache during the audit, None if it does not count them.
    """

    blocks: tuple[Block, ...]
    at_once: int
    cached_tokens: int | None = None

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """The seconds of the mix block and of the same block of each complete pair."""
        pairs = []
        for first, second in zip(self.blocks[::2], self.blocks[1::2], strict=False):
            seconds = {first.kind: first.seconds, second.kind: second.seconds}
            mix, same = seconds.get("mix"), seconds.get("same")
            if mix is not None and same is not None:
                pairs.append((mix, same))
        return pairs


@dataclass(frozen=True, slots=True)
class Interval:
    """How much faster the repeated sample is, as a share (0.1: 10%), and the ends of its confidence
    interval at this look; the ends are None if there are too few pairs."""

    faster: float
    low: float | None
    high: float | None

    @property
    def finding(self) -> Finding:
        """What the interval shows about MAX_SPEEDUP."""
        if self.low is not None and self.low > MAX_SPEEDUP:
            return "caching"
        if self.high is not None and self.high < MAX_SPEEDUP:
            return "no caching"
        return "cannot tell"

    def in_words(self, pairs: int) -> str:
        """The interval for `pairs` pairs: "2.1% faster (99%: -0.4% to 4.8%), 10 pairs"."""
        ends = ""
        if self.low is not None and self.high is not None:
            ends = f" ({1 - 2 * RISK:.0%}: {self.low:.1%} to {self.high:.1%})"
        way = "faster" if self.faster >= 0 else "slower"
        return f"{abs(self.faster):.1%} {way}{ends}, {pairs} pairs"


def interval_of(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """The interval of pairs of (mix, same), in any unit of time; None if there are no pairs.

    The Hodges-Lehmann estimate and the interval of Wilcoxon's signed-rank test for the logarithm of
    each pair's ratio. Exact for any noise that is as likely to affect one block of a pair as the
    other, which their random order ensures.
    """
    ratios = [math.log(mix / same) for mix, same in pairs]
    if not ratios:
        return None
    walsh = sorted((a + b) / 2 for i, a in enumerate(ratios) for b in ratios[i:])
    middle = (walsh[(len(walsh) - 1) // 2] + walsh[len(walsh) // 2]) / 2
    place = _place(len(ratios), RISK / len(LOOKS))
    ends = (None, None) if not place else (walsh[place - 1], walsh[-place])
    low, high = (None if end is None else math.expm1(end) for end in ends)
    return Interval(math.expm1(middle), low, high)


@cache
def _place(pairs: int, risk: float) -> int:
    """The index, from 1, of the sorted pair means at which the interval ends; 0 if there is none.

    Of the 2**n sign patterns, the signed-rank sum is at most k in as many as there are subsets of 1
    to n whose sum is at most k.
    """
    sets = [1]
    for rank in range(1, pairs + 1):
        longer = sets + [0] * rank
        for total, count in enumerate(sets):
            longer[total + rank] += count
        sets = longer
    below = enumerate(itertools.accumulate(sets))
    return next(place for place, count in below if count / 2**pairs > risk)


# How large a block is, and how long the audit takes

_BLOCK_OVERHEAD_S = 0.05
"""Time for LoadGen to begin and end a run and for the suite to read its logs, in s."""
_BLOCK_S = {True: 0.4, False: 2.0}
"""How long a block should last, in s, by whether the profile is smoke."""
_AT_ONCE = (2, 256)
"""The fewest and the most samples of a block."""


def at_once(estimator: Estimator, benchmark: Benchmark) -> int:
    """The samples of a block: enough to take a measurable time.

    At least two, so that sharing between concurrent requests shows as well.
    """
    fewest, most = _AT_ONCE
    if estimator.speed is None:
        return fewest
    one_s = estimator.speed.prefill_s * _prompt_tokens(estimator, benchmark)
    fitting = round(_BLOCK_S[estimator.settings.smoke] / one_s) if one_s > 0 else most
    return min(most, max(fewest, fitting))


def audit_s(estimator: Estimator, benchmark: Benchmark) -> float:
    """Seconds of an audit whose first look decides, with judging and reports."""
    assert estimator.speed is not None
    tokens = _prompt_tokens(estimator, benchmark)
    return blocks_s(estimator.speed, tokens, at_once(estimator, benchmark))


def blocks_s(speed: EngineSpeed, prompt_tokens: int, samples: int) -> float:
    """The same, with prompts of so many tokens and so many samples in a block."""
    block_s = _BLOCK_OVERHEAD_S + speed.batch_s([prompt_tokens] * samples, ANSWER_TOKENS)
    return AFTER_RUN_S + 2 * (1 + LOOKS[0]) * block_s


def _prompt_tokens(estimator: Estimator, benchmark: Benchmark) -> int:
    prompts = sorted(estimator.lengths(benchmark, MODE).prompts)
    return prompts[(len(prompts) - 1) // 2]
