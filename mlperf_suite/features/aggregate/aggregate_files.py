"""The files of an aggregate: its own, and the one that users of the node script parse."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from mlperf_suite.features.aggregate.aggregate import Aggregate
from mlperf_suite.results.node_files import TIME, scenario_json
from mlperf_suite.results.run_folder import write_json

AGGREGATE_JSON = "aggregate.json"
OLD_JSON = "aggregated_datacenter_results.json"


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
            "timestamp": f"{timestamp:{TIME}}" if timestamp else None,
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
