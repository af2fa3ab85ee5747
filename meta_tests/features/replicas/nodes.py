"""Two Ray nodes on this machine, started once, and replicas of a stand-in engine on them."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from meta_tests.features.replicas.replica_stand_in import answering, echo
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.energy import Meters, Series
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import EngineDiedError, EngineError
from mlperf_suite.features.replicas.engine import ReplicaEngine
from mlperf_suite.features.replicas.loading import ReplicasConfig
from scripts.local_nodes import LocalNodes, local_nodes

Load = Callable[..., ReplicaEngine]


@pytest.fixture(scope="session")
def nodes() -> Iterator[LocalNodes]:
    """A cluster of node-a and node-b, a core each."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("replicas need Ray: make ray")
    with local_nodes({"node-a": 1, "node-b": 1}) as cluster, joining(cluster):
        yield cluster


def skip_on_one_core() -> None:
    """Skip the test where this process has one core: no two replicas of a machine share one."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")


@contextmanager
def joining(nodes: LocalNodes) -> Iterator[None]:
    """This process with the environment of whoever joins the cluster."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in nodes.variables.items():
            patched.setenv(name, value)
        yield


def replica_processes(nodes: LocalNodes, *names: str) -> list[psutil.Process]:
    """The processes of the replicas on these nodes, by default on all."""
    replicas = []
    for name, raylet in nodes.raylets.items():
        if psutil.pid_exists(raylet) and name in (names or nodes.raylets):
            children = psutil.Process(raylet).children(recursive=True)
            replicas += [
                process for process in children if process.name().startswith("ray::Replica")
            ]
    return replicas


def stand_in(number: int, gpus: int) -> Callable[[Path], Engine]:
    """Answers a prompt with itself, its first token after 5 ms."""
    return partial(answering, echo, 0.005, 0.01)


def slow(number: int, gpus: int) -> Callable[[Path], Engine]:
    """Answers after a minute."""
    return partial(answering, echo, 60.0, 0.0)


def error_of(engine: ReplicaEngine) -> EngineError:
    """How requests end that would otherwise be answered after a minute."""
    with pytest.raises(EngineDiedError) as error:
        generate_all(engine, [[1, 2]] * 8, Generation())
    assert not engine.alive
    return error.value


def have_ended(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, 60)
    return not alive


@pytest.fixture
def load(nodes: LocalNodes) -> Iterator[Load]:
    """Load replicas on both nodes; closed at the end."""
    loaded: list[ReplicaEngine] = []

    def make(config: ReplicasConfig | None = None, **changes: object) -> ReplicaEngine:
        skip_on_one_core()
        fields = {"make": stand_in, "needs_vllm": False, "address": nodes.address, **changes}
        engine = ReplicaEngine.load(config or ReplicasConfig(**fields))  # type: ignore[arg-type]
        loaded.append(engine)
        return engine

    yield make
    for engine in loaded:
        engine.close()


def labels(meters: Meters) -> set[str]:
    return {c.label for c in meters.counters} | {a.label for a in meters.absent}


def reading(meters: Meters) -> tuple[Series, ...]:
    """What the reader of replicas' meters reads at once."""
    assert meters.reader is not None
    reader = meters.reader()
    reader.start()
    return reader.stop().series
