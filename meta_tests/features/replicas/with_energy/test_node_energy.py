"""The energy of replicas is read on their nodes, each device's once."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.replicas.with_energy.metered_block import energy_of
from meta_tests.servers.replica_stand_in import CPU_WATTS, GPU_WATTS, simulated_meters
from mlperf_suite.energy import GPU, NVML_LABEL, Meters, Recording, UnmeteredDevice
from mlperf_suite.errors import EngineError
from mlperf_suite.features.energy.energy_figures import EnergyFigures
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
        self.calls: list[str] = []

    def metered(self) -> list[Metered]:
        pairs = zip(self.own, self.machines, strict=True)
        return [replace(own.metered(), machine=machine) for own, machine in pairs]

    def ask(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        self.calls.append(method)
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


def watts(figures: EnergyFigures) -> dict[str, float | None]:
    return {kind.kind: kind.mean_watts for kind in figures.kinds}


# What a container shows as GPU 0 is a GPU of its own, and no two GPUs have one UUID.
@pytest.mark.parametrize(
    ("uuids", "machines", "gpus", "cpus"),
    [("xx", "aa", 1, 1), ("xy", "ab", 2, 2), ("xx", "ab", 1, 2)],
)
def test_no_device_is_counted_twice(
    tmp_path: Path, uuids: str, machines: str, gpus: int, cpus: int
) -> None:
    nodes = Nodes(*(simulated_meters(1, uuid) for uuid in uuids), machines=machines)
    assert watts(energy_of(tmp_path, nodes.meters)) == {
        "GPU": pytest.approx(gpus * GPU_WATTS, rel=1e-2),
        "CPU": pytest.approx(cpus * CPU_WATTS, rel=1e-2),
    }


def test_a_node_that_cannot_meter_a_kind_leaves_it_unmeasured(tmp_path: Path) -> None:
    def lost() -> float:
        raise OSError("GPU is lost")

    whole, second = simulated_meters(1, "x"), simulated_meters(1, "y")
    gpu_counter, cpu = second.counters
    without = Meters((cpu,), (UnmeteredDevice(GPU, NVML_LABEL, "no driver"),))
    broken = replace(second, counters=(replace(gpu_counter, read=lost), cpu))
    for meters, why in (
        (without, "node node-1 (10.0.0.1): no driver"),
        (broken, "node-1 GPU 0 H100: it was never read: OSError: GPU is lost"),
    ):
        figures = energy_of(tmp_path, Nodes(whole, meters).meters)
        assert watts(figures) == {"GPU": None, "CPU": pytest.approx(2 * CPU_WATTS, rel=1e-2)}
        assert figures.kinds[0].why == why


@pytest.mark.parametrize(
    ("silent", "error", "why"),
    [
        ("start_meters", EngineError("replica 1: silent"), "its reader did not start"),
        ("stop_meters", EngineError("replica 1: silent"), "replica 1: silent"),
        ("stop_meters", RuntimeError("Ray: silent"), "Ray: silent"),
    ],
)
def test_a_replica_that_does_not_answer_is_the_reason(
    tmp_path: Path, silent: str, error: Exception, why: str
) -> None:
    nodes = Nodes(simulated_meters(1, "x"), simulated_meters(1, "y"))
    answer = nodes.ask

    def ask(method: str, arguments: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        if method == silent:
            raise error
        return answer(method, arguments)

    nodes.ask = ask  # type: ignore[method-assign]
    figures = energy_of(tmp_path, nodes.meters)
    assert figures.measured == ()
    assert why in figures.kinds[0].why
    answer("stop_meters", {0: (), 1: ()})
