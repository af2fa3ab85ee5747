"""The node script's way through the whole suite: two nodes on stand-in engines, and their
aggregate."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.__main__ import main
from mlperf_suite.features.aggregate.aggregate import LABEL, Aggregate
from mlperf_suite.results.run_folder import read_summary, run_folders
from mlperf_suite.results.schema import STAND_IN_LABEL, Summary

_SELECTED = ("-m", "datacenter and performance and not interactive")
_PLUGIN = ("-p", "meta_tests.stand_in_plugin", "--warmup=1")
# Of Offline's warm-up and its query, which must last 10 s; then of Server's queries.
_TOLD = {"delays_s": [0, 10.2, 0.2]}
_VARIABLES = {"MAX_TOKENS": "128", "SERVER_TARGET_QPS": "12", "OFFLINE_TARGET_QPS": "8.4"}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SuiteRun]:
    folder = tmp_path_factory.mktemp("nodes")

    def run(node: str) -> SuiteRun:
        variables = {**_VARIABLES, "NODE_NAME": node, "STAND_IN": json.dumps(_TOLD)}
        return run_suite(folder / node, *_SELECTED, *_PLUGIN, **variables)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(("node-a", "node-b"), pool.map(run, ("node-a", "node-b")), strict=True))


def summaries(run: SuiteRun) -> dict[str, Summary]:
    all_summaries = filter(None, map(read_summary, run_folders(run.results_dir)))
    return {str(summary.meta.scenario): summary for summary in all_summaries}


def test_a_node_runs_both_scenarios_with_a_warm_up_under_its_name(
    nodes: dict[str, SuiteRun],
) -> None:
    for name, run in nodes.items():
        by_scenario = summaries(run)
        assert set(by_scenario) == {"Offline", "Server"}, run.output
        for summary in by_scenario.values():
            assert summary.meta.node_name == name
            assert summary.meta.max_new_tokens == 128
            assert summary.run.warm_up["performance"].requests == 1
        server = by_scenario["Server"].run.performance
        assert server is not None and server.target_qps == 12
        report = (run.folder / "report.md").read_text()
        assert f"| node | {name} |" in report
        assert f"node      {name}\n" in run.output


def test_a_node_leaves_what_its_users_parse(nodes: dict[str, SuiteRun]) -> None:
    run = nodes["node-a"]
    (path,) = run.results_dir.glob("mlperf_datacenter_node-a_*.json")
    (text,) = run.results_dir.glob("summary_node-a_*.txt")
    assert f"node: {path}" in run.output and f"node: {text}" in run.output
    content = json.loads(path.read_text())
    assert content["benchmark_info"]["node"] == "node-a"
    by_scenario = summaries(run)
    assert set(content["scenarios"]) == set(by_scenario)
    for name, scenario in content["scenarios"].items():
        figures = by_scenario[name].run.performance
        assert figures is not None
        assert scenario["valid"] is False and STAND_IN_LABEL in scenario["reason"]
        assert scenario["accuracy"] == 1.0
        assert scenario["achieved_qps"] == figures.samples_per_sec
        assert scenario["throughput_tokens_per_sec"] == figures.tokens_per_sec
        assert scenario["latency_p99"] == (figures.latency_ms or {})["p99"]
    assert STAND_IN_LABEL in text.read_text()


def test_the_nodes_make_one_result(
    nodes: dict[str, SuiteRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(path) for run in nodes.values() for path in run_folders(run.results_dir)]
    assert main(["aggregate", *paths, "--out", str(tmp_path / "out")]) == 0, capsys.readouterr()
    aggregate = Aggregate.read(json.loads((tmp_path / "out/aggregate.json").read_text()))
    assert (aggregate.label, aggregate.nodes) == (LABEL, ("node-a", "node-b"))
    assert STAND_IN_LABEL in aggregate.marks
    for scenario in aggregate.scenarios:
        of_nodes: list[Any] = [summaries(run)[scenario.scenario] for run in nodes.values()]
        rates = [summary.run.performance.tokens_per_sec for summary in of_nodes]
        assert scenario.tokens_per_sec == pytest.approx(sum(rates))
        assert scenario.requests == sum(
            summary.run.performance.life.requests for summary in of_nodes
        )
        p99s = [summary.run.performance.latency_ms["p99"] for summary in of_nodes]
        assert scenario.latency_ms is not None
        # From the requests as the SUT saw them, LoadGen's own clock a few instructions apart.
        assert min(p99s) - 20 <= scenario.latency_ms["p99"] <= max(p99s) + 20
        assert not any("did not all run" in note for note in scenario.notes)
        assert not scenario.valid


def test_a_nodes_result_is_none_with_another_nodes_samples(
    nodes: dict[str, SuiteRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_ = run_folders(nodes["node-a"].results_dir)
    assert main(["aggregate", str(first), str(first), "--out", str(tmp_path / "out")]) == 2
    assert f"refused: {first}: the same run as {first}" in capsys.readouterr().err
