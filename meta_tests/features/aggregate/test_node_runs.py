"""Which runs of several nodes are one aggregate, and what is said of those that are not."""

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.aggregate.made_nodes import ROWS, STARTED, MadeNode, make_nodes, refusals
from mlperf_suite.features.aggregate.aggregate import Aggregate, aggregate_runs

A, B = MadeNode(), MadeNode(node="node-b", rows=ROWS[:50])


def aggregated(*paths: Path) -> Aggregate:
    return aggregate_runs(paths, STARTED)


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "model": ({"meta": {"model": "other"}}, "model other"),
    "samples": ({"meta": {"samples": 84}}, "samples 84"),
    "data": ({"data": "d2"}, "data sha256 d2"),
    "prompts": ({"prompts": "p2"}, "prompts sha256 p2"),
    "precision": ({"engine_settings": {"dtype": "float16"}}, "the engine's dtype float16"),
    "engine": ({"engine": {"name": "other"}}, "engine other"),
    "stand-in": ({"engine": {"stand_in": True}}, "stand-in engine true"),
    "generation": ({"settings": {"generation": {"top_k": 2}}}, "setting generation "),
    "runs made": ({"accuracy": False}, "runs made performance"),
    "seed": ({"log_keys": {"effective_qsl_rng_seed": 2}}, "qsl_rng_seed 2"),
    "length of run": ({"log_keys": {"effective_min_duration_ms": 10000}}, "min_duration_ms 10000"),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_another_measurement_is_refused_in_a_line_that_names_it(tmp_path: Path, case: str) -> None:
    changes, words = DIFFERENT[case]
    first, second = make_nodes(tmp_path, A, replace(B, **changes))
    lines = refusals(first, second)
    assert any(
        line.startswith(f"{second}: {words}") and f"; {first}: " in line for line in lines
    ), lines


NO_PART: dict[str, tuple[dict[str, Any], str]] = {
    "failed": ({"meta": {"status": "failed", "reason": "it died"}}, "status failed: it died"),
    "profiled": ({"meta": {"profiler": "torch"}}, "profiled: not a result, and of no aggregate"),
    "client": (
        {"verdicts": [{"rule": "client_bound", "status": "failed"}]},
        "client-bound: not a result, and of no aggregate",
    ),
    "no name": ({"node": None}, "no node name: run it with NODE_NAME=NAME"),
    "mmlu": ({"meta": {"scenario": None}}, "llama3.1-8b: no scenario of a benchmark"),
    "no log": ({"log_keys": {"result_validity": None}}, "mlperf_log_detail.txt has no result"),
    "not LoadGen's": ({"from_loadgen": False}, "do not count from LoadGen's issue"),
    "no performance": ({"performance": False}, "no performance run: an aggregate is of perf"),
    "another count": (
        {"log_keys": {"result_query_count": 51}},
        "50 requests, and LoadGen issued 51",
    ),
    "another run": (
        {"log_keys": {"result_first_token_99.00_percentile_latency_ns": 400_000_000}},
        "TTFT p99 99 ms, and LoadGen's log has 400 ms",
    ),
}


@pytest.mark.parametrize("case", NO_PART)
def test_what_is_no_part_of_a_result_is_refused(tmp_path: Path, case: str) -> None:
    changes, words = NO_PART[case]
    first, second = make_nodes(tmp_path, A, replace(B, **changes))
    (line,) = refusals(first, second)
    assert line.startswith(f"{second}: ") and words in line


def test_each_run_that_is_no_part_is_named(tmp_path: Path) -> None:
    dead = replace(A, meta={"status": "failed", "reason": "it died"})
    first, second = make_nodes(tmp_path, dead, replace(B, node=None))
    lines = refusals(first, second, tmp_path / "nowhere", tmp_path)
    assert [line.split(": ")[0] for line in lines] == [
        *map(str, (first, second, tmp_path / "nowhere", tmp_path))
    ]
    assert "no such folder" in lines[2] and "no summary.json" in lines[3]


def test_a_log_that_was_changed_or_lost_is_refused(tmp_path: Path) -> None:
    first, second = make_nodes(tmp_path, A, B)
    log = second / "Performance/mlperf_log_detail.txt"
    log.write_text(log.read_text().replace("1000.0", "2000.0"))
    words = f"{second}: not as the run left it: Performance/mlperf_log_detail.txt was changed"
    assert refusals(first, second) == [f"{words} after the run"]
    for number, file in enumerate(("timeline.json", "mlperf_log_detail.txt")):
        first, second = make_nodes(tmp_path / f"{number}", A, B)
        (second / "Performance" / file).unlink()
        (line,) = refusals(first, second)
        assert line.startswith(f"{second}: ") and file in line


def test_one_run_is_not_two(tmp_path: Path) -> None:
    first, second = make_nodes(tmp_path, A, B)
    copy = tmp_path / "copy" / first.name
    shutil.copytree(first, copy)
    (tmp_path / "link").symlink_to(first)
    for again in (first, copy, tmp_path / "link"):
        assert f"{again}: the same run as {first}" in refusals(first, second, again)
    # Nor under another name.
    first, second = make_nodes(tmp_path / "named", A, replace(A, node="node-b"))
    assert refusals(first, second) == [f"{second}: the same run as {first}"]


def test_a_node_is_there_once(tmp_path: Path) -> None:
    paths = make_nodes(tmp_path, A, B, replace(B, rows=ROWS[:60]))
    (line,) = refusals(*paths)
    assert line.startswith(f"{paths[2]}: node node-b is there twice in Server, also as {paths[1]}")
    first, second = make_nodes(tmp_path / "again", A, replace(A, rows=ROWS[:60]))
    assert refusals(first) == ["an aggregate is of two nodes or more"]
    assert "an aggregate is of two nodes or more" in refusals(first, second)


def test_every_node_ran_the_same_scenarios(tmp_path: Path) -> None:
    offline = replace(A, scenario="Offline")
    paths = make_nodes(tmp_path, A, B, offline)
    assert refusals(*paths) == ["node node-b: scenarios Server; node node-a: Offline, Server"]
    whole = make_nodes(tmp_path / "b", A, B, offline, replace(B, scenario="Offline"))
    assert [first.scenario for first in aggregated(*whole).scenarios] == ["Server", "Offline"]


def test_a_scenario_of_other_settings_is_refused_too(tmp_path: Path) -> None:
    """Each scenario's runs agree among each other, and all with the first."""
    off: dict[str, Any] = {"scenario": "Offline", "settings": {"warmup": 0}}
    paths = make_nodes(tmp_path, A, B, replace(A, **off), replace(B, **off))
    assert len([x for x in refusals(*paths) if ": setting warmup 0; " in x]) == 2


@pytest.mark.parametrize(("later_s", "notes"), [(0, False), (4, False), (9, True), (3600, True)])
def test_nodes_that_did_not_run_together_say_so(tmp_path: Path, later_s: int, notes: bool) -> None:
    """By the same clock: an hour later in a zone that is an hour behind, LoadGen's own dates are
    alike."""
    began = STARTED + timedelta(seconds=later_s)
    later = replace(B, rows=ROWS, target_qps=10.5, began=began, zone=timedelta(hours=-1))
    (first,) = aggregated(*make_nodes(tmp_path, replace(A, zone=timedelta(0)), later)).scenarios
    words = [note for note in first.notes if "did not all run at the same time" in note]
    assert bool(words) is notes


def test_what_is_not_known_of_the_nodes_is_told(tmp_path: Path) -> None:
    """When one ran, whether their models' files are the same, and what accuracy they have."""
    known = {"model_files_sha256": "f1"}
    nodes = (replace(node, engine_settings=known) for node in (A, B))
    aggregate = aggregated(*make_nodes(tmp_path / "known", *nodes))
    assert not any("weights" in note for note in aggregate.notes)
    (first,) = aggregate.scenarios
    assert first.notes == ()
    assert [row.accuracy_passed for row in first.nodes] == [True, True]
    unknown: dict[str, Any] = {"accuracy": False, "log_keys": {"power_begin": "yesterday"}}
    nodes = (replace(node, **unknown) for node in (A, B))
    aggregate = aggregated(*make_nodes(tmp_path / "unknown", *nodes))
    assert any("weights" in note for note in aggregate.notes)
    (first,) = aggregate.scenarios
    assert "Whether the nodes ran at the same time is not known." in first.notes
    assert any("not measured on node-a, node-b" in note for note in first.notes)
    assert [row.accuracy_passed for row in first.nodes] == [None, None]
