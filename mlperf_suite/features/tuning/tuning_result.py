"""Whether settings are faster than the default, at which cost, and what each of them contributes.

Decided by pairs of runs that the search has not seen.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlperf_suite.features.tuning.space import Choice, Settings
from mlperf_suite.features.tuning.trial_run import MeasuredTrial

PAIRS = 5
"""The fewest pairs: with fewer, t's interval is so wide that only a gain of several times the noise
would show."""
CONFIDENCE = 0.95
_FAR = 50.0
"""The largest logarithm of an interval's end: a larger value is no figure."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A relative change and the ends of its interval, which one pair does not have."""

    gain: float
    low: float
    high: float
    pairs: int

    @property
    def is_better(self) -> bool:
        """Whether the whole interval is above zero. Of equal settings 2.5% are."""
        return self.low > 0

    @property
    def interval(self) -> str:
        """The change in percent, with its interval if it has one."""
        ends = f" ({self.low * 100:+.1f}% to {self.high * 100:+.1f}%)" if self.pairs > 1 else ""
        return f"{self.gain * 100:+.1f}%{ends}"

    @property
    def words(self) -> str:
        interval = f"{self.low * 100:+.1f}% to {self.high * 100:+.1f}%, {self.pairs} pairs"
        if not self.is_better:
            return f"no better than the default ({self.gain * 100:+.1f}%, {interval})"
        return f"{self.gain * 100:+.1f}% over the default ({interval})"


def gain_of(default: Sequence[float], winner: Sequence[float], fewest: int = PAIRS) -> Gain:
    """The gain from pairs of figures above zero, with Student's interval of the logarithms' mean.

    Raises ValueError for fewer than `fewest` pairs.
    """
    from scipy.special import stdtrit

    ratios = [math.log(after / before) for before, after in zip(default, winner, strict=True)]
    count = len(ratios)
    if count < fewest:
        raise ValueError(f"{count} pairs; a claim needs {fewest}")
    mean, reach = statistics.fmean(ratios), math.inf
    if count > 1:
        reach = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * statistics.stdev(ratios)
        reach /= math.sqrt(count)
    high = math.expm1(min(mean + reach, _FAR))
    return Gain(math.expm1(mean), math.expm1(mean - reach), high, count)


@dataclass(frozen=True, slots=True)
class RunPair:
    """A run of the default and one of the candidate, one after the other."""

    default: MeasuredTrial
    best: MeasuredTrial


@dataclass(frozen=True, slots=True)
class Cost:
    """Metrics where lower is better, with the default and with the winner: medians of the pairs."""

    name: str
    before: float
    after: float
    change: Gain


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one setting of the winner does: how much faster it is than with the default's choice.

    `expected`: by the model of the search. `measured`: None if there was no time. `importance`: how
    far apart the model expects the best and the worst choice to be, relative to the worst.
    """

    name: str
    choice: Choice
    expected: float
    importance: float
    measured: Gain | None = None


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The answer of a tuning. `best`: the candidate. `gain`: None if no pairs were made, as the
    search held the default for the best, or if a run of them failed, for which `failure` says why.
    `failed`: a line for each candidate that failed there.
    """

    best: Settings
    default: Settings
    pairs: Sequence[RunPair] = ()
    gain: Gain | None = None
    failure: str = ""
    failed: Sequence[str] = ()
    contributions: Sequence[Contribution] = ()

    @property
    def is_better(self) -> bool:
        """Whether the candidate is shown to be better than the default."""
        return self.gain is not None and self.gain.is_better

    @property
    def words(self) -> str:
        """The answer in a line."""
        if self.failure:
            return f"no setting was shown to be better than the default: {self.failure}"
        if self.gain is None:
            return "no setting was shown to be better than the default"
        return self.gain.words

    @property
    def costs(self) -> list[Cost]:
        """What the winner's rate costs in latency and energy, for all that every run measured."""
        sides = [[p.default.costs for p in self.pairs], [p.best.costs for p in self.pairs]]
        runs = [costs for side in sides for costs in side]
        names = [name for name in runs[0] if all(name in costs for costs in runs)] if runs else []
        rows = []
        for name in names:
            before, after = ([costs[name] for costs in side] for side in sides)
            change = gain_of(before, after, fewest=1)
            rows.append(Cost(name, statistics.median(before), statistics.median(after), change))
        return rows


def contributions_of(
    best: Settings,
    default: Settings,
    around: Iterable[tuple[str, Choice, float]],
    rounds: Sequence[Mapping[str, float]],
) -> list[Contribution]:
    """What each setting of the best contributes, the largest first.

    `around`: by name and other choice, the model's relative change of the rate. `rounds`: the rates
    of runs one after the other, of the best under the empty name and of the best with one setting
    as the default has it under that setting's name.
    """
    changes: dict[str, dict[Choice, float]] = {}
    for name, choice, change in around:
        changes.setdefault(name, {})[choice] = change
    rows = []
    for name, others in changes.items():
        spread = [0.0, *others.values()]
        importance = (1 + max(spread)) / (1 + min(spread)) - 1
        if best[name] == default[name]:
            rows.append(Contribution(name, best[name], 0.0, importance))
            continue
        expected = 1 / (1 + others[default[name]]) - 1
        both = [of for of in rounds if name in of and "" in of]
        sides = [of[name] for of in both], [of[""] for of in both]
        gain = gain_of(*sides, fewest=1) if both else None
        rows.append(Contribution(name, best[name], expected, importance, gain))
    return sorted(rows, key=lambda row: -row.importance)
