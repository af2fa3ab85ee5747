"""Latency, TTFT and TPOT of requests, as MLPerf and LoadGen define them (loadgen/results.cc)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

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
