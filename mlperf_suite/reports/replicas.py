"""Replicas in reports: a row for each replica and for each node, and notes naming the slowest."""

from __future__ import annotations

from collections.abc import Mapping

from mlperf_suite.engines.protocol import ReplicaFigures, ReplicasRun
from mlperf_suite.results.schema import ScalingFigures

REPLICA_HEADER = (
    *("run", "replica", "node", "devices", "samples", "tokens", "tokens/s", "share, %"),
    *("TTFT p99, ms", "TPOT p99, ms", "latency p99, ms", "busy, s", "ended, s"),
)
NODE_HEADER = ("run", "node", "replicas", "samples", "tokens", "tokens/s", "share, %")
_NONE = "-"


def replica_rows(runs: Mapping[str, ReplicasRun]) -> list[tuple[str, ...]]:
    """Rows under REPLICA_HEADER."""
    return [(mode, *_row(one)) for mode, run in runs.items() for one in run.replicas]


def _row(one: ReplicaFigures) -> tuple[str, ...]:
    times = [of.get("p99") for of in (one.ttft_ms, one.tpot_ms, one.latency_ms)]
    return (
        str(one.number),
        one.node,
        one.devices,
        f"{one.samples:,}",
        f"{one.tokens:,}",
        f"{one.tokens_per_sec:,.2f}",
        f"{one.share * 100:.1f}",
        *(_NONE if value is None else f"{value:,.1f}" for value in times),
        f"{one.busy_s:,.1f}",
        _NONE if one.ended_s is None else f"{one.ended_s:,.1f}",
    )


def node_rows(runs: Mapping[str, ReplicasRun]) -> list[tuple[str, ...]]:
    """Rows under NODE_HEADER; none if all replicas are on one node."""
    return [
        (
            *(mode, node.node, str(node.replicas), f"{node.samples:,}", f"{node.tokens:,}"),
            *(f"{node.tokens_per_sec:,.2f}", f"{node.share * 100:.1f}"),
        )
        for mode, run in runs.items()
        for node in run.nodes
        if len(run.nodes) > 1
    ]


def replica_notes(
    runs: Mapping[str, ReplicasRun], scaling: ScalingFigures | None = None
) -> list[str]:
    """Sentences about each run: its tail, its slowest replica and how busy the driver was."""
    notes = [] if scaling is None else [scaling_line(scaling)]
    for mode, run in runs.items():
        said = [f"{len(run.replicas)} replicas, routed by {run.routing}"]
        if run.tail_s is not None and run.elapsed_s:
            share = run.tail_s / run.elapsed_s * 100
            said.append(f"the last ended {run.tail_s:,.2f} s after the first ({share:.1f}%)")
        if (slowest := run.slowest) is not None:
            said.append(
                f"the slowest is replica {slowest.number} on node {slowest.node} (latency p99 "
                f"{slowest.latency_ms['p99']:,.0f} ms)"
            )
        said.append(f"the driver's thread used {run.driver_busy_share * 100:.1f}% of a core")
        notes.append(f"{mode}: {'; '.join(said)}")
    return notes


def scaling_line(scaling: ScalingFigures) -> str:
    """How all replicas compare with one, in a line."""
    return (
        f"scaling: {scaling.all_tokens_per_sec:,.2f} tokens/s of {scaling.replicas} replicas ÷ "
        f"{scaling.replicas} x {scaling.one_tokens_per_sec:,.2f} of one = "
        f"{scaling.efficiency * 100:.1f}% ({scaling.low * 100:.1f}% to {scaling.high * 100:.1f}%)"
    )


def replica_lines(
    runs: Mapping[str, ReplicasRun], scaling: ScalingFigures | None = None
) -> list[str]:
    """Lines about the performance run's nodes for a terminal, or else those of the first run."""
    mode = "performance" if "performance" in runs else next(iter(runs), None)
    if mode is None:
        return []
    run = runs[mode]
    lines = [
        f"node {node.node}: {node.replicas} replica{'' if node.replicas == 1 else 's'}, "
        f"{node.samples:,} samples, "
        f"{node.tokens_per_sec:,.2f} tokens/s ({node.share * 100:.1f}%)"
        for node in run.nodes
    ]
    return [*lines, *replica_notes({mode: run}, scaling)]
