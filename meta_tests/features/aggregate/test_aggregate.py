"""One result of several nodes' runs: what is summed, what is pooled, and what is written."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meta_tests.features.aggregate.made_nodes import (
    ROWS,
    STARTED,
    MadeNode,
    Row,
    make_nodes,
    refusals,
)
from mlperf_suite.benchmarks.request_times import SHARES, percentile
from mlperf_suite.features.aggregate.aggregate import (
    LABEL,
    Aggregate,
    AggregateNode,
    Scaling,
    aggregate_runs,
    interval,
    pooled,
    slowest,
    total,
)
from mlperf_suite.features.aggregate.aggregate_report import old_json, write_aggregate
from mlperf_suite.results.run_folder import write_json
from mlperf_suite.results.schema import STAND_IN_LABEL

FAST: tuple[Row, ...] = tuple((i, i + (f - i) / 2, i + (e - i) / 2, n) for i, f, e, n in ROWS[:40])
A = MadeNode(tokens_per_sec=900.25, samples_per_sec=9.0, target_qps=10.0)
B = MadeNode("node-b", rows=FAST, tokens_per_sec=1100.5, samples_per_sec=11.0, target_qps=12.0)

OFFLINE_A = MadeNode(scenario="Offline", tokens_per_sec=900.0)
OFFLINE_B = replace(OFFLINE_A, node="node-b", rows=ROWS[:50], tokens_per_sec=1000.0)
ALONE = replace(OFFLINE_A, rows=ROWS[:70], tokens_per_sec=1000.0)


def test_where_one_node_does_not_tell_there_is_no_figure() -> None:
    assert pooled([np.ones(3), np.array([np.nan])]) is None and total([1.0, None]) is None


def test_rates_are_summed_and_times_are_pooled(tmp_path: Path) -> None:
    aggregate = aggregate_runs(make_nodes(tmp_path, A, B), STARTED)
    (scenario,) = aggregate.scenarios
    assert (scenario.tokens_per_sec, scenario.samples_per_sec) == (2000.75, 20.0)
    assert (scenario.target_qps, scenario.rate_unit) == (22.0, "queries/s")
    assert scenario.requests == 140
    assert scenario.tokens == sum(row[3] for row in (*ROWS, *FAST))
    assert scenario.answered == 1.0
    rows = [*ROWS, *FAST]
    for values, of in (
        ([end - start for start, _, end, _ in rows], scenario.latency_ms),
        ([first - start for start, first, _, _ in rows], scenario.ttft_ms),
        ([(end - first) / (n - 1) for _, first, end, n in rows], scenario.tpot_ms),
    ):
        assert of is not None
        for name, share in SHARES.items():
            assert of[name] == pytest.approx(percentile(sorted(values), share))
    # Whatever the order of the nodes, and whatever a summary says beside its log.
    paths = make_nodes(tmp_path / "b", B, A)
    content = json.loads((paths[0] / "summary.json").read_text())
    content["run"]["performance"] |= {"tokens_per_sec": 1e9, "ttft_ms": {"p99": 0.1}}
    (paths[0] / "summary.json").write_text(json.dumps(content))
    (reversed_order,) = aggregate_runs(paths, STARTED).scenarios
    bare = [replace(of, nodes=(), notes=()) for of in (scenario, reversed_order)]
    assert bare[0] == bare[1]
    assert scenario.valid and scenario.reasons == ()
    nodes = (replace(node, scenario="Offline") for node in (A, B))
    (offline,) = aggregate_runs(make_nodes(tmp_path / "c", *nodes), STARTED).scenarios
    assert (offline.ttft_ms, offline.tpot_ms, offline.target_qps) == (None, None, None)
    assert (offline.rate_unit, offline.requests) == ("samples/s", 140)
    assert offline.latency_ms == scenario.latency_ms


def test_a_node_has_its_own_row(tmp_path: Path) -> None:
    gpus = ["H100", "H100", "L40S"]
    paths = make_nodes(tmp_path, replace(A, system={"gpus": gpus}), B)
    (scenario,) = aggregate_runs(paths, STARTED).scenarios
    first, second = scenario.nodes
    assert (first.node, first.run, first.requests) == ("node-a", paths[0].name, 100)
    assert (first.tokens_per_sec, first.target_qps) == (900.25, 10.0)
    assert first.share == pytest.approx(900.25 / 2000.75)
    assert sum(row.share or 0 for row in scenario.nodes) == pytest.approx(1)
    assert first.hardware == "2 x H100, L40S"
    assert second.ttft_ms is not None and second.ttft_ms["p50"] == pytest.approx(35.0)
    nodes = replace(A, system={"gpus": [], "cpu_count": 8}), replace(B, meta={"gpus": {"H100": 1}})
    (scenario,) = aggregate_runs(make_nodes(tmp_path / "other", *nodes), STARTED).scenarios
    assert [row.hardware for row in scenario.nodes] == ["a cpu, 8 cores", "H100"]


def test_an_invalid_run_is_there_and_the_whole_is_not_valid(tmp_path: Path) -> None:
    late = {"result_validity": "INVALID", "result_invalid_reason": "too slow"}
    rule = {"rule": "ttft_limit", "status": "failed"}
    failing = replace(B, log_keys=late, verdicts=(rule,), meta={"status": "invalid"})
    stand_ins = [replace(node, engine={"stand_in": True}) for node in (A, failing)]
    aggregate = aggregate_runs(make_nodes(tmp_path, *stand_ins), STARTED)
    assert aggregate.marks == (STAND_IN_LABEL,)
    (scenario,) = aggregate.scenarios
    assert not scenario.valid
    assert scenario.reasons == (
        f"node-a: {STAND_IN_LABEL}",
        f"node-b: {STAND_IN_LABEL}",
        "node-b: LoadGen: INVALID: too slow",
        "node-b: rules failed: ttft_limit",
    )
    assert [row.valid for row in scenario.nodes] == [False, False]
    of_node = old_json(aggregate)["nodes"]["node-b"]["scenarios"]["Server"]
    assert of_node["valid"] is False and "too slow" in of_node["reason"]


# Who is slowest


def test_the_slowest_node_is_named() -> None:
    rows = [
        AggregateNode(name, tokens_per_sec=rate, ttft_ms={"p99": ttft})
        for name, rate, ttft in (("a", 100.0, 30.0), ("b", 90.0, 10.0), ("c", 110.0, 20.0))
    ]
    offline, server = slowest(rows, False), slowest(rows, True)
    assert offline is not None and server is not None
    assert (offline.node, offline.value, offline.rest) == ("b", 90.0, 105.0)
    assert (server.node, server.value, server.rest) == ("a", 30.0, 15.0)
    assert server.by == "TTFT p99"
    assert slowest([*rows, AggregateNode("d")], False) is None
    assert slowest(rows[:1], False) is None


# What is written


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    aggregate = aggregate_runs(make_nodes(tmp_path, A, B), STARTED)
    write_json(tmp_path / "aggregate.json", aggregate.as_json())
    assert Aggregate.read(json.loads((tmp_path / "aggregate.json").read_text())) == aggregate
    for damaged in ("null", "[]", "{}", '{"scenarios": 3}', '{"scenarios": [{}, {"a": 1}]}'):
        assert Aggregate.read(json.loads(damaged)).scenarios == ()


def test_the_files_of_before_have_their_fields(tmp_path: Path) -> None:
    offline = [replace(node, scenario="Offline") for node in (A, B)]
    aggregate = aggregate_runs(make_nodes(tmp_path, A, B, *offline), STARTED)
    paths = write_aggregate(tmp_path, aggregate)
    assert [path.name for path in paths] == ["aggregate.json", "aggregated_datacenter_results.json"]
    old = json.loads(paths[1].read_text())
    assert set(old) == {"benchmark_info", "scenarios", "node_results", "nodes"}
    assert old["node_results"] == old["nodes"]
    info = old["benchmark_info"]
    assert (info["successful_nodes"], info["failed_nodes"]) == (["node-a", "node-b"], [])
    assert info["total_time_seconds"] == aggregate.span_s
    assert (info["benchmark"], info["timestamp"]) == ("llama3.1-8b", "20261120_101500")
    server, off = old["scenarios"]["Server"], old["scenarios"]["Offline"]
    scenario = aggregate.scenarios[0]
    assert scenario.latency_ms and scenario.ttft_ms and scenario.tpot_ms
    times = ("latency", scenario.latency_ms), ("ttft", scenario.ttft_ms), ("tpot", scenario.tpot_ms)
    assert server == {
        "scenario": "Server",
        "valid": True,
        "achieved_qps": 20.0,
        "target_qps": 22.0,
        **{f"{name}_{p}": of[p] for name, of in times for p in ("p50", "p99")},
        "latency_p90": scenario.latency_ms["p90"],
        "throughput_tokens_per_sec": 2000.75,
        "accuracy": 1.0,
        "total_queries": 140,
        "successful_queries": 140,
        "duration_ms": (scenario.duration_s or 0) * 1e3,
        "label": LABEL,
    }
    assert (off["achieved_qps"], off["throughput_tokens_per_sec"]) == (20.0, 2000.75)
    assert list(old["nodes"]) == ["node-a", "node-b"]
    assert set(old["nodes"]["node-a"]["scenarios"]) == {"Server", "Offline"}
    of_node = old["nodes"]["node-b"]["scenarios"]["Server"]
    assert (of_node["achieved_qps"], of_node["run"]) == (11.0, aggregate.scenarios[0].nodes[1].run)


# What nodes reach together of what they would if each were as fast as one alone


def scaling(tmp_path: Path, nodes: list[MadeNode], singles: list[MadeNode]) -> Scaling | None:
    paths, alone = make_nodes(tmp_path / "n", *nodes), make_nodes(tmp_path / "o", *singles)
    (node,) = aggregate_runs(paths, STARTED, alone).scenarios
    return node.scaling


def test_efficiency_is_all_over_so_many_times_one(tmp_path: Path) -> None:
    efficiency = scaling(tmp_path, [OFFLINE_A, OFFLINE_B], [ALONE])
    assert efficiency is not None
    assert efficiency.efficiency == pytest.approx(1900 / 2000)
    assert efficiency.one_tokens_per_sec == pytest.approx(1000)
    assert (efficiency.low, efficiency.high) == (None, None)
    assert efficiency.noise_from == "not measured: one run each"
    assert len(efficiency.one_runs) == 1
    assert scaling(tmp_path / "none", [OFFLINE_A, OFFLINE_B], []) is None
    # A server's tokens/s are what was sent.
    nodes = [replace(node, scenario="Server") for node in (OFFLINE_A, OFFLINE_B)]
    assert scaling(tmp_path / "server", nodes, [replace(ALONE, scenario="Server")]) is None


def test_repeats_on_both_sides_tell_the_interval(tmp_path: Path) -> None:
    nodes = [
        replace(node, repeats=(node.tokens_per_sec * 1.02,)) for node in (OFFLINE_A, OFFLINE_B)
    ]
    alone = [ALONE, replace(ALONE, rows=ROWS[:71], tokens_per_sec=1010.0, repeats=(990.0,))]
    efficiency = scaling(tmp_path, nodes, alone)
    assert efficiency is not None and efficiency.low is not None and efficiency.high is not None
    together_rate, rate_alone = math.sqrt(1900 * 1900 * 1.02), (1000 * 1010 * 990) ** (1 / 3)
    assert efficiency.efficiency == pytest.approx(together_rate / (2 * rate_alone))
    assert efficiency.low < efficiency.efficiency < efficiency.high
    assert efficiency.noise_from == "2 runs of all and 3 of one node"


def test_what_is_no_run_of_one_node_alone_is_refused(tmp_path: Path) -> None:
    nodes = make_nodes(tmp_path / "n", OFFLINE_A, OFFLINE_B)
    alone = make_nodes(
        tmp_path / "o",
        ALONE,
        replace(ALONE, scenario="Server"),
        replace(ALONE, rows=ROWS[:60], engine_settings={"dtype": "float16"}),
        replace(ALONE, rows=ROWS[:65], meta={"status": "failed"}),
    )
    (line,) = refusals(*nodes, alone=(nodes[0],))
    assert line == f"--one {nodes[0]}: the same run as {nodes[0]}: run a node alone"
    (line,) = refusals(*nodes, alone=(alone[0], alone[0]))
    assert line.startswith(f"--one {alone[0]}: the same run as {alone[0]}")
    assert refusals(*nodes, alone=(alone[1],)) == [f"--one {alone[1]}: no node ran Server"]
    (line,) = refusals(*nodes, alone=(alone[2],))
    assert line.startswith(f"--one {alone[2]}: the engine's dtype float16; {nodes[0]}: bfloat16")
    (line,) = refusals(*nodes, alone=(alone[3],))
    assert line.startswith(f"{alone[3]}: status failed")


def test_one_run_on_a_side_adds_no_degree_of_freedom() -> None:
    """Student's interval of the other's runs; Welch's where both were repeated."""
    one, other = [interval([1900.0, 1938.0], [1000.0], 2), interval([1000.0], [1900.0, 1938.0], 1)]
    assert one[:2] == pytest.approx((0.771593, 1.193051), abs=1e-6)
    assert other[0] == pytest.approx(1 / (1.193051 * 2), abs=1e-6)
    both = interval([1900.0, 1938.0, 1910.0], [1000.0, 1010.0, 990.0], 2)
    assert both[:2] == pytest.approx((0.936242, 0.980260), abs=1e-6)
    assert interval([1900.0] * 2, [1000.0], 2)[:2] == pytest.approx((0.95, 0.95))
