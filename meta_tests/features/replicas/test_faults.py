"""Replicas that are lost, that do not load, and clusters that cannot hold them: each ends in a line
that names the node and the replica, and leaves nothing behind."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from meta_tests.features.replicas.nodes import (
    Load,
    error_of,
    have_ended,
    replica_processes,
    skip_on_one_core,
    slow,
)
from meta_tests.servers.local_nodes import LocalNodes
from meta_tests.servers.replica_stand_in import answering, echo, failing
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import EngineDiedError, EngineError
from mlperf_suite.features.replicas.engine import ReplicaEngine
from mlperf_suite.features.replicas.loading import ReplicasConfig
from mlperf_suite.features.replicas.placement import parse_nodes

GENERATION = Generation()
NODE_B = r"replica 1 on node node-b \(127.0.0.1\)"


def process_on(nodes: LocalNodes, name: str) -> psutil.Process:
    """The process of the replica on the node of this name."""
    (process,) = replica_processes(nodes, name)
    return process


def second_fails(number: int, gpus: int) -> Callable[[Path], Engine]:
    """The engine of replica 1 does not load."""
    return failing if number == 1 else partial(answering, echo, 0.0, 0.0)


def test_a_replica_that_was_killed_is_named(load: Load, nodes: LocalNodes) -> None:
    engine = load(make=slow)
    process_on(nodes, "node-b").kill()
    assert f"{error_of(engine)}" == (
        "replica 1 on node node-b (127.0.0.1): its process was killed or crashed"
    )
    # And whatever is asked later.
    with pytest.raises(EngineDiedError, match=NODE_B):
        generate_all(engine, [[1]], GENERATION)


def test_a_replica_that_does_not_load_is_named(load: Load, nodes: LocalNodes) -> None:
    with pytest.raises(EngineError, match=f"{NODE_B}: the stand-in engine does not load"):
        load(make=second_fails)
    assert have_ended(replica_processes(nodes))


def test_a_cluster_without_room_is_said_before_anything_is_started(
    load: Load, nodes: LocalNodes
) -> None:
    with pytest.raises(
        EngineError, match=r"3 replicas of 1 core each.*node node-a \(127.0.0.1\) 1"
    ):
        load(replicas=3)
    with pytest.raises(EngineError, match="no node node-z in the Ray cluster: it has node-a"):
        load(nodes=parse_nodes("node-z"))
    assert not replica_processes(nodes)


def test_an_address_where_no_cluster_is_ends_at_once() -> None:
    with pytest.raises(EngineError, match=r"--ray 127.0.0.1:1: no Ray cluster can be joined"):
        ReplicaEngine.load(ReplicasConfig(slow, address="127.0.0.1:1"))


def test_a_run_that_is_interrupted_while_it_loads_leaves_no_process(nodes: LocalNodes) -> None:
    skip_on_one_core()

    def interrupt(line: str) -> None:
        if "idle" in line:
            raise KeyboardInterrupt

    config = ReplicasConfig(slow, needs_vllm=False, address=nodes.address)
    with pytest.raises(KeyboardInterrupt):
        ReplicaEngine.load(config, interrupt)
    assert have_ended(replica_processes(nodes))


class StandInSearch:
    """Finds settings that no stand-in engine has."""

    def result(self) -> dict[str, object]:
        return {"max_num_seqs": 7}

    def end(self) -> None:
        """Nothing goes on."""


def test_settings_are_compared_on_the_replicas_own_node(nodes: LocalNodes, load: Load) -> None:
    """`load` joins a cluster, as `--ray` does."""
    why = "max_num_seqs is None, and 7 for an engine in a process of its own"
    with pytest.raises(EngineError, match=rf"replica 0 .*{why}"):
        load(expected=lambda gpus: StandInSearch)
    assert have_ended(replica_processes(nodes))
