"""A node that is lost, a cluster of our own that is stopped, GPUs that are given out."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import psutil

from meta_tests.features.replicas.nodes import (
    error_of,
    have_ended,
    joining,
    replica_processes,
    slow,
)
from mlperf_suite.features.replicas.engine import ReplicaEngine
from mlperf_suite.features.replicas.loading import ReplicasConfig
from scripts.local_nodes import local_nodes


def test_a_node_that_is_lost_is_named() -> None:
    with local_nodes({"node-a": 1, "node-b": 1}) as nodes, joining(nodes):
        config = ReplicasConfig(slow, needs_vllm=False, address=nodes.address)
        engine = ReplicaEngine.load(config)
        try:
            os.kill(nodes.raylets["node-b"], signal.SIGKILL)
            line = str(error_of(engine))
        finally:
            engine.close()
        assert line.startswith("replica 1 on node node-b (127.0.0.1): its ")
        assert have_ended(replica_processes(nodes))


def is_ray_process(process: psutil.Process) -> bool:
    try:
        return "ray" in " ".join(process.cmdline())
    # One that ended meanwhile.
    except psutil.Error:
        return False


def test_a_cluster_of_our_own_is_stopped() -> None:
    config = ReplicasConfig(slow, needs_vllm=False, replicas=1)
    before = set(psutil.process_iter())
    variables = dict(os.environ)
    engine = ReplicaEngine.load(replace(config, own_cpus=1))
    try:
        ray = [p for p in psutil.process_iter() if p not in before and is_ray_process(p)]
        assert ray
    finally:
        engine.close()
    assert have_ended([p for p in ray if p.is_running() and p.status() != psutil.STATUS_ZOMBIE])
    assert dict(os.environ) == variables


def test_gpus_are_given_out_where_ray_counts_fewer_cores() -> None:
    with local_nodes({"node-g": 1}, {"node-g": 2}) as nodes, joining(nodes):
        config = ReplicasConfig(slow, needs_vllm=False, address=nodes.address, tensor_parallel=1)
        engine = ReplicaEngine.load(config)
        try:
            assert engine.description.settings["replica_gpus"] == ["0", "1"]
        finally:
            engine.close()
