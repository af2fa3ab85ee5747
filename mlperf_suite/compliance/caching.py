"""The caching audit's data and its statistic: how much faster one sample over and over is. Pure.

Blocks come in pairs, one of each kind in an order drawn by chance: `mix` answers samples that the
system has never seen, `same` answers one sample over and over, of the same length in tokens.
Without a cache the two do the same work. docs/caching-audit.md has the design, its error rates and
what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from mlperf_suite.loadgen.logs import RunLogs

Finding = Literal["no caching", "caching", "cannot tell"]
Kind = Literal["mix", "same"]
MOST_FASTER = 0.10
"""TEST04's limit: one sample over and over may be so much faster, as a share."""
LOOKS = (10, 20, 30)
"""The numbers of pairs after which the interval is looked at; it is over where that decides."""
RISK = 0.005
"""How often, at most, chance alone makes a wrong finding of one kind: caching where there is none,
or none where there is."""
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
        """From LoadGen's issue of the query to its last answer; None where the log does not say."""
        found = self.logs.detail.number("result_max_latency_ns")
        return None if found is None or found <= 0 else found / 1e9


@dataclass(frozen=True, slots=True)
class Caching:
    """All that was measured: `blocks` in the order in which they were made, two of each pair.

    `at_once`: the samples of a block. `cached_tokens`: prompt tokens that the engine counted as
    taken from a cache meanwhile, None where it does not count them.
    """

    blocks: tuple[Block, ...]
    at_once: int
    cached_tokens: int | None = None

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Of each whole pair the seconds of its block of the mix and of its other block."""
        found = []
        for one, other in zip(self.blocks[::2], self.blocks[1::2], strict=False):
            seconds = {one.kind: one.seconds, other.kind: other.seconds}
            mix, same = seconds.get("mix"), seconds.get("same")
            if mix is not None and same is not None:
                found.append((mix, same))
        return found


@dataclass(frozen=True, slots=True)
class Interval:
    """How much faster the same sample is, as a share (0.1: 10%), and the ends between which that
    lies with the chance that the looks leave; without ends where there are too few pairs."""

    faster: float
    low: float | None
    high: float | None

    @property
    def finding(self) -> Finding:
        """What it shows of MOST_FASTER."""
        if self.low is not None and self.low > MOST_FASTER:
            return "caching"
        if self.high is not None and self.high < MOST_FASTER:
            return "no caching"
        return "cannot tell"

    def in_words(self, pairs: int) -> str:
        """The interval of so many pairs: "2.1% faster (99%: -0.4% to 4.8%), 10 pairs"."""
        ends = ""
        if self.low is not None and self.high is not None:
            ends = f" ({1 - 2 * RISK:.0%}: {self.low:.1%} to {self.high:.1%})"
        way = "faster" if self.faster >= 0 else "slower"
        return f"{abs(self.faster):.1%} {way}{ends}, {pairs} pairs"


def interval_of(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """The interval of pairs of (mix, same), in any unit of time; None without a pair.

    Hodges and Lehmann's estimate and the interval of Wilcoxon's signed-rank test, of the logarithm
    of each pair's ratio. Exact for whatever noise, as long as it is as likely to fall on the one
    block of a pair as on the other, which their order by chance sees to.
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
    """Which of the sorted means of pairs, from 1 on, ends the interval on each side; 0 is none.

    The signed-rank sum is at most k by chance in as many of the 2**n draws of signs as there are
    sets of 1 to n that sum up to at most k.
    """
    sets = [1]
    for rank in range(1, pairs + 1):
        longer = sets + [0] * rank
        for total, count in enumerate(sets):
            longer[total + rank] += count
        sets = longer
    below = 0
    for place, count in enumerate(sets):
        below += count
        if below / 2**pairs > risk:
            return place
    return 0
