"""What the rules of a log's consistency share: a decorator, and the ranges of printed figures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import failure

agreement_rule = partial(
    rule,
    official=False,
    fix="Submit the log exactly as LoadGen wrote it; if it is, repeat the run.",
    whole_log=True,
)
"""`rule` for what a log must agree on with itself, which is the suite's own check."""
DIGITS = 6
"""The significant digits of a double in LoadGen's logs (the default of a C++ stream)."""


@dataclass(frozen=True, slots=True)
class FigureRange:
    """Two values that bound a figure."""

    low: float
    high: float

    @classmethod
    def from_printed(cls, value: float) -> FigureRange:
        """The range of a figure that the log prints as `value`, which is finite."""
        if value == 0:
            return cls(0, 0)
        half = 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - DIGITS + 1)
        # The value itself is the nearest binary number to the printed one.
        half += abs(value) * 1e-15
        return cls(value - half, value + half)

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    def holds(self, value: float, slack: float = 0.0) -> bool:
        return self.low - slack <= value <= self.high + slack

    def times(self, factor: float) -> FigureRange:
        """The range of the figure times a factor of at least 0."""
        return FigureRange(self.low * factor, self.high * factor)

    def under(self, value: float) -> FigureRange:
        """The range of `value`, at least 0, divided by the figure, which is positive."""
        return FigureRange(value / self.high, value / self.low)

    def overlap(self, bounds: FigureRange) -> FigureRange | None:
        """The overlap of both ranges; None if there is none."""
        low, high = max(self.low, bounds.low), min(self.high, bounds.high)
        return FigureRange(low, high) if low <= high else None


def figure_of(run: RunFacts, key: str) -> FigureRange:
    """The range of a positive figure before it was rounded for printing. Raises VerdictError."""
    number = run.amount(key)
    if number == 0:
        raise failure(f"{key} 0")
    return FigureRange.from_printed(number)
