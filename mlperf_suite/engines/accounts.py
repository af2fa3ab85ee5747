"""Counts the answers of a server or a replica in a run."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from mlperf_suite.benchmarks.percentile import percentile


class AnswerAccount:
    """Answers of one place; times in s of time.monotonic, 8 bytes each."""

    def __init__(self) -> None:
        self._ttft = array("d")
        self._latency = array("d")
        self._last = 0.0
        self.tokens = 0
        """The tokens of the answers."""

    def _add(self, submitted: float, first: float | None, last: float, tokens: int) -> None:
        """Count an answer. `first`: when its first token came, None if it was not streamed."""
        self._latency.append(last - submitted)
        if last > self._last:  # noqa: PLR1730 - max() would cost a call for each answer
            self._last = last
        self.tokens += tokens
        if first is not None:
            self._ttft.append(first - submitted)

    def _ended_s(self, began: float) -> float | None:
        """When the last answer came, in s since `began`; None if none did."""
        return round(self._last - began, 3) if self._latency else None


def percentiles_ms(seconds: Sequence[float], *percents: int) -> dict[str, float]:
    """These percentiles in ms, by names such as p99; empty without values."""
    values = sorted(seconds)
    if not values:
        return {}
    return {f"p{p}": round(percentile(values, p / 100) * 1000, 3) for p in percents}
