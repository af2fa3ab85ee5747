"""Measure how soon a fault of a replica is detected, and show the message.

    python -m perf.replica_faults

Runs stand-in engines in real processes on two Ray nodes of this machine; requests that would be
answered after ten minutes are waiting when the fault happens. Prints the seconds from the fault, or
from the start of loading, and the last line. No engine is measured.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

from meta_tests.servers.replica_stand_in import answering, dying, echo, failing
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.replicas.config import ReplicasConfig
from mlperf_suite.engines.replicas.engine import ReplicaEngine
from mlperf_suite.engines.replicas.local_nodes import LocalNodes, local_nodes
from mlperf_suite.engines.replicas.placement import parse_nodes
from mlperf_suite.errors import SuiteError

_NODES = {"node-a": 1, "node-b": 1}
_LATE_S = 600.0


def late(number: int, gpus: int) -> Callable[[Path], Engine]:
    """An engine that answers after ten minutes."""
    return partial(answering, echo, _LATE_S, 0.0)


def second_fails(number: int, gpus: int) -> Callable[[Path], Engine]:
    """The engine of replica 1 does not load."""
    return failing if number == 1 else partial(answering, echo, 0.0, 0.0)


def second_dies(number: int, gpus: int) -> Callable[[Path], Engine]:
    """The engine of replica 1 dies at its first request."""
    return partial(dying, 0 if number == 1 else 10**9)


def _replica_on(nodes: LocalNodes, name: str) -> psutil.Process:
    children = psutil.Process(nodes.raylets[name]).children(recursive=True)
    return next(one for one in children if one.name().startswith("ray::Replica"))


def _kill_replica(nodes: LocalNodes) -> None:
    _replica_on(nodes, "node-b").kill()


def _stop_replica(nodes: LocalNodes) -> None:
    _replica_on(nodes, "node-b").suspend()


def _kill_node(nodes: LocalNodes) -> None:
    os.kill(nodes.raylets["node-b"], signal.SIGKILL)


def _nothing(nodes: LocalNodes) -> None:
    """Do nothing: the engine itself has the fault."""


def _running(
    what: str,
    nodes: LocalNodes,
    do: Callable[[LocalNodes], None],
    make: Callable[[int, int], Callable[[Path], Engine]] = late,
) -> None:
    engine = ReplicaEngine.load(ReplicasConfig(make, needs_vllm=False, address=nodes.address))
    stopped = _replica_on(nodes, "node-b")
    began = time.monotonic()
    try:
        do(nodes)
        generate_all(engine, [[1, 2]] * 8, Generation())
        said = "answered"
    except SuiteError as error:
        said = str(error)
    took = time.monotonic() - began
    if stopped.is_running():
        stopped.resume()
    engine.close()
    _tell(what, took, said)


def _loading(what: str, config: ReplicasConfig) -> None:
    began = time.monotonic()
    try:
        ReplicaEngine.load(config).close()
        said = "loaded"
    except SuiteError as error:
        said = str(error)
    _tell(what, time.monotonic() - began, said)


def _tell(what: str, seconds: float, said: str) -> None:
    print(f"| {what} | {seconds:.1f} | {said} |", flush=True)


def main() -> None:
    print("| fault | s | the line |\n|---|---:|---|", flush=True)
    with local_nodes(_NODES) as nodes:
        os.environ.update(nodes.variables)
        config = partial(ReplicasConfig, late, needs_vllm=False, address=nodes.address)
        _running("a replica's process is killed", nodes, _kill_replica)
        _running("a replica's process is stopped", nodes, _stop_replica)
        _running("the engine in a replica dies", nodes, _nothing, second_dies)
        _loading(
            "a replica does not load",
            ReplicasConfig(second_fails, needs_vllm=False, address=nodes.address),
        )
        _loading("too few cores", config(replicas=3))
        _loading("a node that is not there", config(nodes=parse_nodes("node-z")))
        _loading("a model that is not there", config(model="/no/such/model"))
        _loading("no cluster at the address", ReplicasConfig(late, address="127.0.0.1:1"))
        _running("a node's raylet is killed", nodes, _kill_node)


if __name__ == "__main__":
    main()
