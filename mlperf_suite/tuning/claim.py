"""Whether settings are faster than the default: pairs of runs that the search has not seen."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

PAIRS = 5
"""The fewest pairs: with fewer, t's interval is so wide that only a gain of several times the noise
would show."""
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Gain:
    """The relative gain of the winner over the default and the ends of its interval."""

    gain: float
    low: float
    high: float
    pairs: int

    @property
    def is_better(self) -> bool:
        """Whether the whole interval is above zero. Of equal settings 2.5% are."""
        return self.low > 0

    @property
    def words(self) -> str:
        interval = f"{self.low * 100:+.1f}% to {self.high * 100:+.1f}%, {self.pairs} pairs"
        if not self.is_better:
            return f"no better than the default ({self.gain * 100:+.1f}%, {interval})"
        return f"{self.gain * 100:+.1f}% over the default ({interval})"


def gain_of(default: Sequence[float], winner: Sequence[float]) -> Gain:
    """The gain from pairs of rates in tokens/s, with Student's interval of the logarithms' mean.

    Raises ValueError for fewer than PAIRS pairs.
    """
    from scipy.special import stdtrit

    ratios = [math.log(after / before) for before, after in zip(default, winner, strict=True)]
    count = len(ratios)
    if count < PAIRS:
        raise ValueError(f"{count} pairs; a claim needs {PAIRS}")
    mean = statistics.fmean(ratios)
    reach = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * statistics.stdev(ratios)
    reach /= math.sqrt(count)
    return Gain(math.expm1(mean), math.expm1(mean - reach), math.expm1(mean + reach), count)
