"""What a cluster does besides answering: replicas alone, what is aborted, who is let in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from meta_tests.engines.recording import RecordingListener
from meta_tests.features.replicas.nodes import stand_in
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Request
from mlperf_suite.features.replicas.engine import ReplicaEngine
from mlperf_suite.features.replicas.loading import ReplicasConfig
from scripts.local_nodes import LocalNodes

GENERATION = Generation()


@pytest.fixture(scope="module")
def engine(nodes: LocalNodes) -> Iterator[ReplicaEngine]:
    """Two replicas, one on each node."""
    config = ReplicasConfig(stand_in, needs_vllm=False, address=nodes.address)
    replica_engine = ReplicaEngine.load(config)
    yield replica_engine
    replica_engine.close()


def test_one_replica_can_be_asked_alone(engine: ReplicaEngine) -> None:
    engine.take_replicas_run()
    generate_all(engine.replicas[1], [[1, 2]] * 50, GENERATION)
    assert [replica.samples for replica in engine.take_replicas_run().replicas] == [0, 50]
    # And leaves nothing behind that later requests would be routed by.
    generate_all(engine, [[1, 2]] * 50, GENERATION)
    assert [replica.samples for replica in engine.take_replicas_run().replicas] == [25, 25]


def test_what_was_aborted_is_not_heard_of_again(engine: ReplicaEngine) -> None:
    listener = RecordingListener()
    engine.submit([Request(i, [1]) for i in range(100)], GENERATION, listener, stream=False)
    engine.abort()
    assert generate_all(engine, [[1, 2]] * 4, GENERATION).token_ids == [[1, 2]] * 4
    assert len(listener.answers) < 100
    assert not listener.errors


def listening_on(process: psutil.Process) -> set[str]:
    """The addresses of a process, which may end meanwhile as Ray's idle workers do."""
    try:
        connections = process.net_connections("inet")
    except psutil.NoSuchProcess:
        return set()
    return {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}


def test_only_the_loopback_address_is_listened_on(engine: ReplicaEngine, nodes: LocalNodes) -> None:
    parents = [psutil.Process(pid).parent() for pid in nodes.raylets.values()]
    ray = {p for parent in parents if parent for p in parent.children(recursive=True)}
    listening = set().union(*map(listening_on, ray))
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_whoever_has_no_token_is_not_let_in(engine: ReplicaEngine, nodes: LocalNodes) -> None:

    code = f"import ray; ray.init(address={nodes.address!r}, logging_level='ERROR')"
    without = {n: v for n, v in os.environ.items() if not n.startswith("RAY_AUTH")}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**without, "HOME": "/nonexistent"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    # It would try again for minutes.
    line = next(line for line in process.stderr if "Unauthenticated" in line)
    process.kill()
    process.communicate()
    assert "token" in line
