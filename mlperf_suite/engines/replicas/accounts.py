"""Counters of each replica in a run; times in s of time.monotonic, 8 bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from mlperf_suite.benchmarks.percentile import percentile
from mlperf_suite.engines.protocol import NodeFigures, ReplicaFigures, ReplicasRun
from mlperf_suite.engines.replicas.placement import Seat, devices

_PERCENTILES = {"p50": 0.5, "p99": 0.99}


class ReplicaAccount:
    """One replica's requests in a run."""

    def __init__(self) -> None:
        self._ttft = array("d")
        self._tpot = array("d")
        self._latency = array("d")
        self._tokens = 0
        self._outstanding = 0
        self._began = self._last = 0.0
        self._busy = 0.0

    def handed(self, now: float) -> None:
        """Count a request handed to the replica."""
        if not self._outstanding:
            self._began = now
        self._outstanding += 1

    def ended(self, now: float) -> None:
        """Count a request that ended, answered or not."""
        self._outstanding -= 1
        if not self._outstanding:
            self._busy += now - self._began

    def answered(self, now: float, submitted: float, first: float | None, tokens: int) -> None:
        """Count an answer. `first`: when its first token came, None if it was not streamed."""
        self._latency.append(now - submitted)
        self._tokens += tokens
        self._last = now
        if first is not None:
            self._ttft.append(first - submitted)
            if tokens > 1:
                self._tpot.append((now - first) / (tokens - 1))

    @property
    def tokens(self) -> int:
        """The tokens of its answers."""
        return self._tokens

    def figures(
        self, seat: Seat, began: float, elapsed_s: float, all_tokens: int
    ) -> ReplicaFigures:
        """The totals of a run. `began`: when its first request was handed over; `elapsed_s`: how
        long it took; `all_tokens`: the tokens of all replicas."""
        return ReplicaFigures(
            seat.number,
            str(seat.node),
            devices(seat),
            len(self._latency),
            self._tokens,
            round(self._tokens / elapsed_s, 3) if elapsed_s else 0.0,
            round(self._tokens / all_tokens, 6) if all_tokens else 0.0,
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


def run_of(
    routing: str,
    began: float,
    elapsed_s: float,
    cpu_s: float,
    accounts: Sequence[ReplicaAccount],
    seats: Sequence[Seat],
) -> ReplicasRun:
    """The figures of all replicas. `cpu_s`: the CPU time of the driver's thread in the run."""
    tokens = sum(account.tokens for account in accounts)
    replicas = tuple(
        account.figures(seat, began, elapsed_s, tokens)
        for account, seat in zip(accounts, seats, strict=True)
    )
    ends = [one.ended_s for one in replicas]
    known = [end for end in ends if end is not None]
    tail_s = max(known) - min(known) if known and len(known) == len(ends) else None
    return ReplicasRun(
        routing,
        round(elapsed_s, 3),
        None if tail_s is None else round(tail_s, 3),
        round(cpu_s / elapsed_s, 4) if elapsed_s else 0.0,
        replicas,
        tuple(
            _sum(node, [one for one in replicas if one.node == node])
            for node in dict.fromkeys(one.node for one in replicas)
        ),
    )


def _sum(node: str, replicas: Sequence[ReplicaFigures]) -> NodeFigures:
    return NodeFigures(
        node,
        len(replicas),
        sum(one.samples for one in replicas),
        sum(one.tokens for one in replicas),
        round(sum(one.tokens_per_sec for one in replicas), 3),
        round(sum(one.share for one in replicas), 6),
    )
