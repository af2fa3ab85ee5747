"""Replicas of a stand-in engine that die, in a real cluster: each ends in a line that names it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from meta_tests.features.replicas.nodes import Load, replica_processes
from meta_tests.features.replicas.replica_stand_in import echo, simulated_meters
from meta_tests.stand_in import Delays, StandInEngine
from meta_tests.suite_runs import run_suite
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import EngineDiedError, EngineError
from scripts.local_nodes import LocalNodes

GENERATION = Generation()


NODE_B = r"replica 1 on node node-b \(127.0.0.1\)"


def dying(requests: int, folder: Path) -> StandInEngine:
    return StandInEngine(Delays(), echo, fail_after=requests)


def second_dies(number: int, gpus: int) -> Callable[[Path], Engine]:
    """The engine of replica 1 dies at its fourth request."""
    return partial(dying, 3 if number == 1 else 10**9)


def test_an_engine_that_dies_in_its_replica_is_named(load: Load) -> None:
    engine = load(make=second_dies)
    with pytest.raises(EngineDiedError, match=f"{NODE_B}: the stand-in engine died, as configured"):
        generate_all(engine, [[1, 2]] * 40, GENERATION)


def test_a_node_without_the_model_is_named(load: Load, tmp_path: Path) -> None:
    words = rf"node node-a .*: the model does not exist: {tmp_path}/x"
    with pytest.raises(EngineError, match=words):
        load(model=str(tmp_path / "x"))


def test_a_replica_that_is_lost_while_it_reads_is_the_reason(load: Load, nodes: LocalNodes) -> None:
    make_reader = load().meters(simulated_meters).reader
    assert make_reader is not None
    reader = make_reader()
    reader.start()
    (process,) = replica_processes(nodes, "node-b")
    process.kill()
    process.wait(120)
    assert all("replica 1 on node node-b" in row.failure for row in reader.stop().series)


PLAN = ("--plan", "-m", "offline and datacenter")


def test_a_plan_without_room_says_so(nodes: LocalNodes, tmp_path: Path) -> None:
    run = run_suite(tmp_path, *PLAN, "--ray", nodes.address, "--replicas", "3", **nodes.variables)
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "3 replicas of 1 core each: the Ray cluster has no room" in run.output
