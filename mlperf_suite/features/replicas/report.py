"""What reports say of replicas and nodes."""

from __future__ import annotations

from mlperf_suite.features.replicas.figures import (
    RUNS,
    SCALING,
    NodeFigures,
    ReplicaFigures,
    ReplicasRun,
    ReplicasRuns,
    ScalingFigures,
)
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Line,
    Points,
    Section,
    count,
    decimal,
    efficiency_words,
    paragraphs,
    record_table,
    time_cell,
)
from mlperf_suite.results.schema import Config, Summary


class ReplicasReport(FeatureReport):
    def sections(self, summary: Summary, config: Config | None) -> list[Section]:
        runs: ReplicasRuns = summary.parts.get(RUNS, {})
        return [_section(summary, runs)] if runs else []

    def closing(self, summary: Summary) -> list[Line]:
        runs: ReplicasRuns = summary.parts.get(RUNS, {})
        lines = _brief_lines(summary, runs) if runs else []
        return [Line("" if number else "replicas", line) for number, line in enumerate(lines)]


REPORT = ReplicasReport()


def _brief_lines(summary: Summary, runs: ReplicasRuns) -> list[str]:
    """What the terminal tells: of the performance run, or else of the first."""
    mode = "performance" if "performance" in runs else next(iter(runs))
    of_nodes = [
        f"{node.node}: {count(node.replicas, 'replica')}, {node.samples:,} samples, "
        f"{node.tokens_per_sec:,.2f} tokens/s"
        for node in runs[mode].nodes
        if len(runs[mode].nodes) > 1
    ]
    return [*of_nodes, *scaling_lines(summary), _replicas_line(mode, runs[mode])]


def _section(summary: Summary, runs: ReplicasRuns) -> Section:
    """Each replica, each node if there are several, and sentences that name the slowest."""
    replicas: list[dict[str, Cell]] = [
        {"run": name, "replica": str(replica.number), "node": replica.node}
        | {"devices": replica.devices}
        | _share_of_run(replica)
        | _times_of_replica(replica)
        for name, run in runs.items()
        for replica in run.replicas
    ]
    nodes: list[dict[str, Cell]] = [
        {"run": name, "node": node.node, "replicas": str(node.replicas), **_share_of_run(node)}
        for name, run in runs.items()
        if len(run.nodes) > 1
        for node in run.nodes
    ]
    lines = [*scaling_lines(summary), *(_replicas_line(*run) for run in runs.items())]
    blocks: list[Block] = [Points(lines)]
    blocks += record_table(replicas, ["run", "replica", "node", "devices"])
    blocks += record_table(nodes, ["run", "node"])
    brief = paragraphs(_brief_lines(summary, runs))
    return Section("Replicas and nodes", blocks, brief=brief)


def _share_of_run(part: ReplicaFigures | NodeFigures) -> dict[str, Cell]:
    return {
        "samples": f"{part.samples:,}",
        "tokens": f"{part.tokens:,}",
        "tokens/s": f"{part.tokens_per_sec:,.2f}",
        "share, %": f"{part.share * 100:.1f}",
    }


def _times_of_replica(replica: ReplicaFigures) -> dict[str, Cell]:
    return {
        "TTFT p99": time_cell(replica.ttft_ms.get("p99")),
        "TPOT p99": time_cell(replica.tpot_ms.get("p99")),
        "latency p99": time_cell(replica.latency_ms.get("p99")),
        "busy, s": decimal(replica.busy_s, 1),
        "ended, s": decimal(replica.ended_s, 1),
    }


def _replicas_line(mode: str, run: ReplicasRun) -> str:
    """A run's tail, its slowest replica and how busy the driver was."""
    parts = [f"{len(run.replicas)} replicas, routed by {run.routing}"]
    if run.tail_s is not None and run.elapsed_s:
        share = run.tail_s / run.elapsed_s * 100
        parts.append(f"the last finished {run.tail_s:,.2f} s after the first ({share:.1f}%)")
    if (slowest := run.slowest) is not None:
        parts.append(
            f"the slowest is replica {slowest.number} on node {slowest.node} (latency p99 "
            f"{time_cell(slowest.latency_ms['p99'])})"
        )
    parts.append(f"the driver's thread used {run.driver_busy_share * 100:.1f}% of a core")
    return f"{mode}: {'; '.join(parts)}"


def scaling_lines(summary: Summary) -> list[str]:
    """How all replicas compare with one, in a line; none if that was not measured."""
    scaling: ScalingFigures | None = summary.parts.get(SCALING)
    if scaling is None:
        return []
    is_repeated = scaling.pairs > 1
    low, high = (scaling.low, scaling.high) if is_repeated else (None, None)
    source = f"from {scaling.pairs} pairs" if is_repeated else "since it was measured once"
    words = efficiency_words(scaling.efficiency, low, high, source)
    return [
        f"scaling: {scaling.all_tokens_per_sec:,.2f} tokens/s of {scaling.replicas} replicas ÷ "
        f"{scaling.replicas} x {scaling.one_tokens_per_sec:,.2f} of one = {words}"
    ]
