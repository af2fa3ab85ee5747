"""What is counted of each replica in a run; times in s of time.monotonic, 8 bytes for each."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from mlperf_suite.benchmarks.percentile import percentile
from mlperf_suite.engines.protocol import ReplicaFigures

_PERCENTILES = {"p50": 0.5, "p99": 0.99}


class ReplicaAccount:
    """One replica's requests of a run."""

    def __init__(self) -> None:
        self._ttft = array("d")
        self._tpot = array("d")
        self._latency = array("d")
        self._tokens = 0
        self._outstanding = 0
        self._began = self._last = 0.0
        self._busy = 0.0

    def handed(self, now: float) -> None:
        """Count a request that it was given."""
        if not self._outstanding:
            self._began = now
        self._outstanding += 1

    def ended(self, now: float) -> None:
        """Count a request that it has no more, answered or not."""
        self._outstanding -= 1
        if not self._outstanding:
            self._busy += now - self._began

    def answered(self, now: float, submitted: float, first: float | None, tokens: int) -> None:
        """Count an answer of so many tokens. `first`: when its first token came, None where it was
        not streamed."""
        self._latency.append(now - submitted)
        self._tokens += tokens
        self._last = now
        if first is not None:
            self._ttft.append(first - submitted)
            if tokens > 1:
                self._tpot.append((now - first) / (tokens - 1))

    def figures(self, number: int, node: str, devices: str, began: float) -> ReplicaFigures:
        """What it came to, in a run whose first request was handed over then."""
        return ReplicaFigures(
            number,
            node,
            devices,
            len(self._latency),
            self._tokens,
            _ms(self._ttft),
            _ms(self._tpot),
            _ms(self._latency),
            round(self._busy, 3),
            round(self._last - began, 3) if self._latency else None,
        )


def _ms(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    if not ordered:
        return {}
    return {n: round(percentile(ordered, of) * 1000, 3) for n, of in _PERCENTILES.items()}
