"""One result of several nodes' runs: what is summed, what is pooled, and what is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.made_nodes import ROWS, STARTED, MadeNode, Row, make_nodes
from mlperf_suite.benchmarks.percentile import SHARES, percentile
from mlperf_suite.results.aggregate import (
    LABEL,
    Aggregate,
    AggregateNode,
    aggregate_runs,
    pooled,
    slowest,
    total,
)
from mlperf_suite.results.node_files import old_json, write_aggregate
from mlperf_suite.results.run_folder import write_json

FAST: tuple[Row, ...] = tuple((i, i + (f - i) / 2, i + (e - i) / 2, n) for i, f, e, n in ROWS[:40])
A = MadeNode(tokens_per_sec=900.25, samples_per_sec=9.0, target_qps=10.0)
B = MadeNode("node-b", rows=FAST, tokens_per_sec=1100.5, samples_per_sec=11.0, target_qps=12.0)

_TIMES = st.lists(
    st.lists(st.floats(0, 1e9, allow_nan=False), max_size=60).map(np.asarray),
    min_size=1,
    max_size=6,
)


@given(_TIMES)
def test_a_pooled_percentile_is_that_of_all_values_together(times: list[Any]) -> None:
    aggregate, values = pooled(times), sorted(value for of in times for value in of)
    if not values:
        assert aggregate is None
        return
    percentiles = {name: percentile(values, share) for name, share in SHARES.items()}
    assert aggregate == {name: round(value, 6) for name, value in percentiles.items()}


@given(_TIMES, st.randoms(use_true_random=False))
def test_the_order_of_the_runs_does_not_matter(times: list[Any], random: Any) -> None:
    shuffled = list(times)
    random.shuffle(shuffled)
    assert pooled(times) == pooled(shuffled)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50).map(np.asarray), st.integers(1, 4))
def test_nodes_that_are_alike_pool_to_what_each_has(times: Any, nodes: int) -> None:
    """Within one place of the sorted values: n x 0.99 is not cut as the whole is."""
    aggregate, own = pooled([times] * nodes), np.sort(times)
    assert aggregate is not None
    for name, share in SHARES.items():
        place = int(len(own) * share)
        near = own[max(place - 1, 0) : place + 2]
        assert near.min() - 1e-6 <= aggregate[name] <= near.max() + 1e-6


def test_what_one_node_does_not_report_is_pooled_of_none() -> None:
    assert pooled([np.asarray([1.0]), None]) is None
    assert pooled([]) is None


@given(st.lists(st.floats(0, 1e9) | st.none(), max_size=8))
def test_a_sum_is_of_every_node_or_of_none(values: list[float | None]) -> None:
    aggregate = total(values)
    if not values or None in values:
        assert aggregate is None
    else:
        assert aggregate == pytest.approx(sum(value for value in values if value is not None))


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
    p99s = [(row.ttft_ms or {})["p99"] for row in scenario.nodes]
    assert scenario.ttft_ms is not None
    assert scenario.ttft_ms["p99"] != pytest.approx(sum(p99s) / 2)
    assert scenario.valid and scenario.reasons == ()


def test_a_node_has_its_own_row(tmp_path: Path) -> None:
    gpus = ["H100", "H100", "L40S"]
    paths = make_nodes(tmp_path, replace(A, system={"gpus": gpus}), B)
    (scenario,) = aggregate_runs(paths, STARTED).scenarios
    first, second = scenario.nodes
    assert (first.node, first.run, first.requests) == ("node-a", paths[0].name, 100)
    assert (first.tokens_per_sec, first.target_qps) == (900.25, 10.0)
    assert first.share == pytest.approx(900.25 / 2000.75)
    assert sum(row.share or 0 for row in scenario.nodes) == pytest.approx(1)
    assert first.hardware == "2 x H100, 1 x L40S"
    assert second.ttft_ms is not None and second.ttft_ms["p50"] == pytest.approx(35.0)
    nodes = replace(A, system={"gpus": []}), B
    (scenario,) = aggregate_runs(make_nodes(tmp_path / "cpu", *nodes), STARTED).scenarios
    assert scenario.nodes[0].hardware == "a cpu"


def test_offline_has_neither_ttft_nor_tpot_nor_a_rate_that_is_sent(tmp_path: Path) -> None:
    nodes = (replace(A, scenario="Offline"), replace(B, scenario="Offline"))
    (scenario,) = aggregate_runs(make_nodes(tmp_path, *nodes), STARTED).scenarios
    assert (scenario.ttft_ms, scenario.tpot_ms, scenario.target_qps) == (None, None, None)
    assert scenario.rate_unit == "samples/s"
    assert scenario.latency_ms is not None
    assert scenario.requests == 140


def test_the_order_of_the_nodes_changes_no_figure(tmp_path: Path) -> None:
    paths = make_nodes(tmp_path, A, B)
    scenarios = [aggregate_runs(order, STARTED).scenarios[0] for order in (paths, paths[::-1])]
    assert [row.node for row in scenarios[1].nodes] == ["node-b", "node-a"]
    bare = [replace(scenario, nodes=(), notes=()) for scenario in scenarios]
    assert bare[0] == bare[1]


def test_an_invalid_run_is_there_and_the_whole_is_not_valid(tmp_path: Path) -> None:
    late = {"result_validity": "INVALID", "result_invalid_reason": "too slow"}
    rule = {"rule": "ttft_limit", "status": "failed"}
    failing = replace(B, log_keys=late, verdicts=(rule,), meta={"status": "invalid"})
    aggregate = aggregate_runs(make_nodes(tmp_path, A, failing), STARTED)
    (scenario,) = aggregate.scenarios
    assert not scenario.valid
    assert scenario.reasons == (
        "node-b: LoadGen: INVALID: too slow",
        "node-b: rules failed: ttft_limit",
    )
    assert [row.valid for row in scenario.nodes] == [True, False]
    old = old_json(aggregate)
    assert old["scenarios"]["Server"]["valid"] is False
    assert old["nodes"]["node-a"]["scenarios"]["Server"]["valid"] is True
    assert "too slow" in old["nodes"]["node-b"]["scenarios"]["Server"]["reason"]


def test_figures_are_those_of_the_log_and_not_of_the_summary(tmp_path: Path) -> None:
    paths = make_nodes(tmp_path, A, B)
    path = paths[0] / "summary.json"
    content = json.loads(path.read_text())
    content["run"]["performance"] |= {"tokens_per_sec": 1e9, "ttft_ms": {"p99": 0.1}}
    path.write_text(json.dumps(content))
    (scenario,) = aggregate_runs(paths, STARTED).scenarios
    assert scenario.tokens_per_sec == 2000.75
    assert scenario.nodes[0].ttft_ms is not None and scenario.nodes[0].ttft_ms["p99"] > 100


def test_a_stand_ins_runs_are_marked_as_such(tmp_path: Path) -> None:
    nodes = [replace(node, engine={"stand_in": True}) for node in (A, B)]
    aggregate = aggregate_runs(make_nodes(tmp_path, *nodes), STARTED)
    assert aggregate.marks == ("made with a stand-in engine: not a measurement of any system",)
    assert not aggregate.scenarios[0].valid


# Who is slowest


def node(
    name: str, tokens_per_sec: float | None = None, ttft: float | None = None
) -> AggregateNode:
    times = None if ttft is None else {"p99": ttft}
    return AggregateNode(name, tokens_per_sec=tokens_per_sec, ttft_ms=times)


def test_the_slowest_node_is_named() -> None:
    rows = [node("a", 100.0, 30.0), node("b", 90.0, 10.0), node("c", 110.0, 20.0)]
    offline, server = slowest(rows, False), slowest(rows, True)
    assert offline is not None and server is not None
    assert (offline.node, offline.value, offline.rest) == ("b", 90.0, 105.0)
    assert (server.node, server.value, server.rest) == ("a", 30.0, 15.0)
    assert server.by == "TTFT p99"
    assert slowest([*rows, node("d")], False) is None
    assert slowest(rows[:1], False) is None


# What is written


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    aggregate = aggregate_runs(make_nodes(tmp_path, A, B), STARTED)
    write_json(tmp_path / "aggregate.json", aggregate.as_json())
    assert Aggregate.read(json.loads((tmp_path / "aggregate.json").read_text())) == aggregate
    assert aggregate.label == LABEL


@pytest.mark.parametrize("content", [None, [], {}, {"scenarios": 3}, {"scenarios": [{}, {"a": 1}]}])
def test_a_damaged_file_raises_nothing(content: object) -> None:
    assert Aggregate.read(content).scenarios == ()


def test_the_files_of_before_have_their_fields(tmp_path: Path) -> None:
    offline = [replace(node, scenario="Offline") for node in (A, B)]
    aggregate = aggregate_runs(make_nodes(tmp_path, A, B, *offline), STARTED)
    paths = write_aggregate(tmp_path, aggregate)
    assert [path.name for path in paths] == ["aggregate.json", "aggregated_datacenter_results.json"]
    old = json.loads(paths[1].read_text())
    assert set(old) == {"benchmark_info", "scenarios", "nodes"}
    info = old["benchmark_info"]
    assert (info["benchmark"], info["timestamp"]) == ("llama3.1-8b", "20261120_101500")
    assert info["model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert info["label"] == LABEL
    server, off = old["scenarios"]["Server"], old["scenarios"]["Offline"]
    scenario = aggregate.scenarios[0]
    assert scenario.latency_ms is not None
    assert server == {
        "valid": True,
        "achieved_qps": 20.0,
        "target_qps": 22.0,
        "latency_p99": scenario.latency_ms["p99"],
        "throughput_tokens_per_sec": 2000.75,
        "accuracy": 1.0,
        "label": LABEL,
    }
    assert (off["achieved_qps"], off["throughput_tokens_per_sec"]) == (20.0, 2000.75)
    assert off["label"] == LABEL
    assert list(old["nodes"]) == ["node-a", "node-b"]
    assert set(old["nodes"]["node-a"]["scenarios"]) == {"Server", "Offline"}
    of_node = old["nodes"]["node-b"]["scenarios"]["Server"]
    assert (of_node["achieved_qps"], of_node["run"]) == (11.0, aggregate.scenarios[0].nodes[1].run)
