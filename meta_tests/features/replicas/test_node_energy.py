"""The energy of replicas is read on their nodes, each device's once."""

import time
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from meta_tests.features.replicas.nodes import reading
from meta_tests.features.replicas.replica_stand_in import CPU_WATTS, GPU_WATTS, simulated_meters
from mlperf_suite.energy import GPU, NVML_LABEL, Meters, Recording, UnmeteredDevice
from mlperf_suite.errors import EngineError
from mlperf_suite.features.replicas.nodes import Metered, OwnMeters, meters_of
from mlperf_suite.features.replicas.placement import Node, ReplicaSlot

AHEAD_S = 5000.0
"""How far the clock of node-b is ahead of this process's."""
SEATS = [ReplicaSlot(n, Node(f"id-{n}", f"node-{n}", "10.0.0.1"), 1, 0) for n in range(2)]


class Nodes:
    """Replicas on two machines, the second of which has another clock; without Ray."""

    def __init__(self, *meters: Meters, machines: Sequence[str] = ("a", "b")) -> None:
        self.own = list(map(OwnMeters, meters))
        self.machines = machines

    def metered(self) -> list[Metered]:
        pairs = zip(self.own, self.machines, strict=True)
        return [replace(own.metered(), machine=machine) for own, machine in pairs]

    def ask(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        if method == "start_meters":
            for n, (numbers,) in arguments.items():
                self.own[n].start(numbers)
            return [None for _ in arguments]
        return [self.shifted(n, self.own[n].stop()) for n in arguments]

    def shifted(self, replica: int, recording: Recording) -> Recording:
        series = (
            replace(row, times_s=array("d", (at + AHEAD_S * replica for at in row.times_s)))
            for row in recording.series
        )
        return replace(recording, series=tuple(series))

    def meters(self) -> Meters:
        return meters_of(SEATS, self.metered(), self.ask, lambda replica: -AHEAD_S * replica)


# What a container shows as GPU 0 is a GPU of its own, and no two GPUs have one UUID.
@pytest.mark.parametrize(
    ("uuids", "machines", "gpus", "cpus"),
    [("xx", "aa", 1, 1), ("xy", "ab", 2, 2), ("xx", "ab", 1, 2)],
)
def test_no_device_is_counted_twice(uuids: str, machines: str, gpus: int, cpus: int) -> None:
    began_s = time.monotonic()
    nodes = Nodes(*(simulated_meters(1, uuid) for uuid in uuids), machines=machines)
    rows = reading(nodes.meters())
    kinds = Counter((row.counter.kind, *set(row.values)) for row in rows)
    assert kinds == {("GPU", GPU_WATTS): gpus, ("CPU", CPU_WATTS): cpus}
    # In times of this process's clock.
    assert all(began_s - 1 < at < time.monotonic() + 1 for row in rows for at in row.times_s)


def test_a_node_that_cannot_meter_a_kind_leaves_it_unmeasured() -> None:
    def lost() -> float:
        raise OSError("GPU is lost")

    whole, second = simulated_meters(1, "x"), simulated_meters(1, "y")
    gpu_counter, cpu = second.counters
    missing = UnmeteredDevice(GPU, NVML_LABEL, "no driver")
    without = Nodes(whole, Meters((cpu,), (missing,))).meters()
    assert without.absent == (replace(missing, why="node node-1 (10.0.0.1): no driver"),)
    assert {counter.kind for counter in without.counters} == {"CPU"}
    broken = replace(second, counters=(replace(gpu_counter, read=lost), cpu))
    unread = [row for row in reading(Nodes(whole, broken).meters()) if not row.values]
    assert [(row.counter.name, row.failure) for row in unread] == [
        ("node-1 GPU 0 H100", "OSError: GPU is lost")
    ]


@pytest.mark.parametrize("error", [EngineError("replica 1: silent"), RuntimeError("Ray: silent")])
def test_a_replica_that_does_not_answer_is_the_reason(error: Exception) -> None:
    nodes = Nodes(simulated_meters(1, "x"), simulated_meters(1, "y"))
    answer = nodes.ask

    def ask(method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        if method == "stop_meters":
            raise error
        return answer(method, arguments)

    nodes.ask = ask  # type: ignore[method-assign]
    assert {row.failure for row in reading(nodes.meters())} == {str(error)}
    answer("stop_meters", {0: (), 1: ()})
