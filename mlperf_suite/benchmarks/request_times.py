"""Latency, TTFT and TPOT of requests, and percentiles, as MLPerf and LoadGen define them
(loadgen/results.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p97": 0.97, "p99": 0.99, "p99.9": 0.999}
"""The percentiles in a summary of a run's times, by name."""
_MIN_TIME_MS = -1.0
"""How far below zero a time may appear: LoadGen's instants are derived with that accuracy."""


def tpot(first: float, ended: float, tokens: int) -> float | None:
    """The time for each token after the first, in the unit of both times; None for an answer of
    one token."""
    return (ended - first) / (tokens - 1) if tokens > 1 else None


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """Answered requests, a row each; times in ms since one moment. `first_ms`: of the first token,
    nan if the run does not stream. `tokens`: of each answer."""

    issued_ms: Doubles
    first_ms: Doubles
    ended_ms: Doubles
    tokens: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def are_possible(self) -> bool:
        """Whether no time is below zero, but for what LoadGen's instants are exact to."""
        times = (self.latency_ms, self.ttft_ms, self.tpot_ms)
        negative = any((of < _MIN_TIME_MS).any() for of in times)
        return not (negative or (self.tokens < 0).any())

    @property
    def latency_ms(self) -> Doubles:
        """From issue to end."""
        return self.ended_ms - self.issued_ms

    @property
    def ttft_ms(self) -> Doubles:
        """From issue to the first token."""
        return self.first_ms - self.issued_ms

    @property
    def tpot_ms(self) -> Doubles:
        """From the first token to the end, for each later token; nan for an answer of one token."""
        import numpy as np

        later: Doubles = np.where(self.tokens > 1, self.tokens - 1, np.nan)
        return (self.ended_ms - self.first_ms) / later


def percentile(ascending: Sequence[float] | npt.NDArray[Any], share: float) -> float:
    """The percentile of sorted values, at least one: one of them, none between two. A `share`
    of 0.99 is the 99th.

    loadgen/results.cc, LoadGen 4.1 to 6.0, takes the value at `count * share`, a product of
    doubles, truncated to an integer.
    """
    return float(ascending[min(int(len(ascending) * share), len(ascending) - 1)])


def distribution(values: npt.NDArray[Any]) -> dict[str, float]:
    """The mean and the percentiles in `SHARES` of these values, in any order, nan left out; empty
    if there are no values."""
    import numpy as np

    ascending = np.sort(values[~np.isnan(values)])
    if not len(ascending):
        return {}
    named = {name: percentile(ascending, share) for name, share in SHARES.items()}
    return {"mean": float(ascending.mean()), **named}
