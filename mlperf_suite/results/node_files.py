"""The files that users of the node script parse, for one session and for several nodes.

Names and fields are those of mlperf_datacenter_benchmark.py and its coordinator
(github.com/jshim0978/MLPerf_local_test): latency_p99 in ms, achieved_qps in queries/s or samples/s,
accuracy from 0 to 1. There it was always 1; here it is the share of queries that were answered. An
entry that is not a valid result has `valid` false and the cause in `reason`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mlperf_suite.results.aggregate import Aggregate, AggregateNode, ScenarioFigures
from mlperf_suite.results.node_runs import why_no_result
from mlperf_suite.results.performance_figures import answered_share, issued_samples, read_detail
from mlperf_suite.results.run_folder import read_config, write_json
from mlperf_suite.results.schema import Config, PerformanceFigures, Summary
from mlperf_suite.strangers import printable

_TIME = "%Y%m%d_%H%M%S"
AGGREGATE_JSON = "aggregate.json"
OLD_JSON = "aggregated_datacenter_results.json"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
CATEGORY = "datacenter"
"""The category of benchmarks that these files cover."""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """A result of the session: its final summary, its folder, and its start time."""

    summary: Summary
    folder: Path
    started: datetime


def file_part(node: str) -> str:
    """A node's name, made valid as a part of a file name."""
    return _NOT_IN_A_NAME.sub("_", node).lstrip(".") or "_"


def scenario_json(
    figures: PerformanceFigures | AggregateNode | ScenarioFigures | None,
    reasons: Sequence[str],
    share: float | None,
) -> dict[str, Any]:
    """One entry of `scenarios`. `reasons`: why it is not a valid result. `share`: the answered."""
    of = figures or PerformanceFigures()
    return {
        "valid": not reasons,
        **({"reason": "; ".join(reasons)} if reasons else {}),
        "achieved_qps": of.samples_per_sec,
        "target_qps": of.target_qps,
        "latency_p99": (of.latency_ms or {}).get("p99"),
        "throughput_tokens_per_sec": of.tokens_per_sec,
        "accuracy": share,
    }


def write_node_files(results_dir: Path, node: str, results: Iterable[NodeResult]) -> list[Path]:
    """Write the files of a session's datacenter results, a pair per benchmark; returns their paths.

    The time in a name is the start of the benchmark's first result. Raises OSError.
    """
    by_benchmark: dict[str, list[NodeResult]] = {}
    for result in results:
        if result.summary.meta.category == CATEGORY:
            by_benchmark.setdefault(result.summary.meta.benchmark or "", []).append(result)
    paths: list[Path] = []
    names: Counter[str] = Counter()
    for of_benchmark in by_benchmark.values():
        content = _session_json(node, of_benchmark)
        name = f"{file_part(node)}_{content['benchmark_info']['timestamp']}"
        names[name] += 1
        # A second benchmark started in the same second gets a number.
        end = name if names[name] == 1 else f"{name}-{names[name]}"
        paths += [results_dir / f"mlperf_datacenter_{end}.json", results_dir / f"summary_{end}.txt"]
        write_json(paths[-2], content)
        paths[-1].write_text(_text(content), encoding="utf-8")
    return paths


def _session_json(node: str, results: Sequence[NodeResult]) -> dict[str, Any]:
    meta, first = results[0].summary.meta, min(result.started for result in results)
    return {
        "benchmark_info": {
            "benchmark": meta.benchmark,
            "model": meta.model,
            "timestamp": f"{first:{_TIME}}",
            "node": node,
            "round": meta.round,
            "profile": meta.profile,
            "label": meta.rules,
        },
        "scenarios": {str(result.summary.meta.scenario): _scenario(result) for result in results},
    }


def _scenario(result: NodeResult) -> dict[str, Any]:
    figures = result.summary.run.performance
    reasons = why_no_result(result.summary, Config.read(read_config(result.folder)), figures)
    share = None
    if figures is not None and figures.life is not None:
        sample_count = issued_samples(read_detail(result.folder), result.summary.meta.scenario)
        share = answered_share(figures.life.requests, sample_count)
    content = scenario_json(figures, reasons, share)
    passed = result.summary.run.accuracy_passed
    return {**content, "accuracy_passed": passed, "run": result.folder.name}


def _text(content: Mapping[str, Any]) -> str:
    """The content of summary_<node>_<time>.txt."""
    info = content["benchmark_info"]
    head = f"{info['benchmark']} on {info['node']}"
    lines = [
        head,
        "=" * len(head),
        str(info["label"]),
        "",
        f"Model: {info['model']}",
        f"Round: {info['round']}, profile {info['profile']}",
        f"Timestamp: {info['timestamp']}",
    ]
    for name, entry in content["scenarios"].items():
        lines += ["", f"{name}: {'VALID' if entry['valid'] else 'NOT VALID'}"]
        lines += [f"  Reason: {entry['reason']}"] if not entry["valid"] else []
        rate = "samples/s" if name == "Offline" else "queries/s"
        lines += [
            f"  Achieved: {_number(entry['achieved_qps'])} {rate}, "
            f"target {_number(entry['target_qps'])}",
            f"  Latency p99: {_number(entry['latency_p99'])} ms",
            f"  Throughput: {_number(entry['throughput_tokens_per_sec'])} tokens/s",
            f"  Accuracy (share of queries answered): {_number(entry['accuracy'], 4)}",
        ]
    return "\n".join(map(printable, lines)) + "\n"


def _number(value: float | None, digits: int = 2) -> str:
    return "not reported" if value is None else f"{value:,.{digits}f}"


# Several nodes


def old_json(aggregate: Aggregate) -> dict[str, Any]:
    """The content of aggregated_datacenter_results.json; `nodes` has each node's own file's
    content."""
    timestamp = datetime.fromisoformat(aggregate.made) if aggregate.made else None
    of_nodes: dict[str, dict[str, Any]] = {node: {"scenarios": {}} for node in aggregate.nodes}
    for scenario in aggregate.scenarios:
        for row in scenario.nodes:
            of_nodes[row.node]["scenarios"][scenario.scenario] = {
                **scenario_json(row, row.reasons, row.answered),
                "accuracy_passed": row.accuracy_passed,
                "run": row.run,
            }
    return {
        "benchmark_info": {
            "benchmark": aggregate.benchmark,
            "model": aggregate.model,
            "timestamp": f"{timestamp:{_TIME}}" if timestamp else None,
            "round": aggregate.round,
            "profile": aggregate.profile,
            "label": "; ".join((aggregate.label, *aggregate.marks)),
            "total_nodes": len(aggregate.nodes),
        },
        "scenarios": {
            of.scenario: {**scenario_json(of, of.reasons, of.answered), "label": aggregate.label}
            for of in aggregate.scenarios
        },
        "nodes": of_nodes,
    }


def write_aggregate(out: Path, aggregate: Aggregate) -> list[Path]:
    """Write both JSON files into an existing folder; returns their paths. Raises OSError."""
    write_json(out / AGGREGATE_JSON, aggregate.as_json())
    write_json(out / OLD_JSON, old_json(aggregate))
    return [out / AGGREGATE_JSON, out / OLD_JSON]
