"""What each replica, and each node, did in a run."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from mlperf_suite.benchmarks.request_times import tpot
from mlperf_suite.engines.routing import AnswerAccount, percentiles_ms
from mlperf_suite.features.replicas.figures import NodeFigures, ReplicaFigures, ReplicasRun
from mlperf_suite.features.replicas.placement import ReplicaSlot, devices


class ReplicaAccount(AnswerAccount):
    """One replica's answers in a run."""

    def __init__(self) -> None:
        super().__init__()
        self._tpot = array("d")
        self._busy_since: float | None = None
        self._busy_s = 0.0

    def turn(self, now: float, *, busy: bool) -> None:
        """The replica got its first request, or its last one ended."""
        if not busy and self._busy_since is not None:
            self._busy_s += now - self._busy_since
        self._busy_since = now if busy else None

    def add(self, now: float, submitted: float, first: float | None, tokens: int) -> None:
        """Count an answer. `first`: when its first token came, None if it was not streamed."""
        self._add(submitted, first, now, tokens)
        if first is not None and (tpot_s := tpot(first, now, tokens)) is not None:
            self._tpot.append(tpot_s)

    def figures(
        self, slot: ReplicaSlot, began: float, elapsed_s: float, all_tokens: int
    ) -> ReplicaFigures:
        """The totals of a run. `began`: when its first request was handed over; `elapsed_s`: how
        long it took; `all_tokens`: the tokens of all replicas."""
        return ReplicaFigures(
            slot.number,
            str(slot.node),
            devices(slot),
            len(self._latency),
            self.tokens,
            round(self.tokens / elapsed_s, 3) if elapsed_s else 0.0,
            round(self.tokens / all_tokens, 6) if all_tokens else 0.0,
            percentiles_ms(self._ttft, 50, 99),
            percentiles_ms(self._tpot, 50, 99),
            percentiles_ms(self._latency, 50, 99),
            round(self._busy_s, 3),
            self._ended_s(began),
        )


def run_of(
    routing: str,
    began: float,
    elapsed_s: float,
    cpu_s: float,
    accounts: Sequence[ReplicaAccount],
    slots: Sequence[ReplicaSlot],
) -> ReplicasRun:
    """The figures of all replicas. `cpu_s`: the CPU time of the driver's thread in the run."""
    tokens = sum(account.tokens for account in accounts)
    replicas = tuple(
        account.figures(slot, began, elapsed_s, tokens)
        for account, slot in zip(accounts, slots, strict=True)
    )
    ends = [replica.ended_s for replica in replicas if replica.ended_s is not None]
    tail_s = max(ends) - min(ends) if ends and len(ends) == len(replicas) else None
    return ReplicasRun(
        routing,
        round(elapsed_s, 3),
        None if tail_s is None else round(tail_s, 3),
        round(cpu_s / elapsed_s, 4) if elapsed_s else 0.0,
        replicas,
        tuple(
            _sum(node, [replica for replica in replicas if replica.node == node])
            for node in dict.fromkeys(replica.node for replica in replicas)
        ),
    )


def _sum(node: str, replicas: Sequence[ReplicaFigures]) -> NodeFigures:
    return NodeFigures(
        node,
        len(replicas),
        sum(replica.samples for replica in replicas),
        sum(replica.tokens for replica in replicas),
        round(sum(replica.tokens_per_sec for replica in replicas), 3),
        round(sum(replica.share for replica in replicas), 6),
    )
