"""Energy counters, one per device: those of GPUs through NVML, of CPUs and their memory by RAPL.

RAPL as Linux provides it under powercap (the kernel's Documentation/power/powercap/powercap.rst):
`energy_uj` counts µJ, wraps around to 0 after `max_energy_range_uj`, and since Linux 5.10 only root
may read it (CVE-2020-8694).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from mlperf_suite.hardware import (
    GpuMeter,
    GpuMeters,
    are_numbered_by_bus,
    gpus_named,
    open_gpu_meters,
)

Gives = Literal["energy", "power"]
NVML_LABEL = "GPU energy by NVML, not MLPerf Power"
RAPL_LABEL = "CPU energy by RAPL, not MLPerf Power"
SIMULATED_LABEL = "SIMULATED counters: no measurement of energy"
"""Replaces all labels of simulated counters."""

GPU = "GPU"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MIG = "MIG-"
_PARTED = "a part of a GPU (MIG), and NVML counts whole ones"
CPU = "CPU"
POWERCAP = Path("/sys/class/powercap")
_ZONE = re.compile(r"intel-rapl:\d+(?::\d+)?")
"""A package (intel-rapl:0) or a part of one (intel-rapl:0:1), also on AMD's CPUs. The zones of
intel-rapl-mmio are the same packages again."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One device's meter. `read` returns the joules since some fixed time or, with `gives` "power",
    the current watts; it may raise any Exception.

    `kind`: the kind of device, in one word for a table (GPU, CPU). `label`: shown beside every
    figure; counters with the same label are summed. `range_j`: the joules at which the counter
    wraps around to 0, None if it never does. `most_watts`: more than the device ever draws. `note`:
    why it is read differently from most, in a few words.
    """

    name: str
    kind: str
    label: str
    read: Callable[[], float]
    gives: Gives = "energy"
    range_j: float | None = None
    most_watts: float = 2000.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """A kind of device that cannot be metered, and why."""

    kind: str
    label: str
    why: str


@dataclass(frozen=True, slots=True)
class Meters:
    """What can be metered, and what cannot; call `close` when the run is over.

    `simulated`: whether the counters are simulated, to try the suite with. `note`: a sentence on
    what they measure, empty if that is obvious.
    """

    counters: tuple[Counter, ...] = ()
    absent: tuple[Absent, ...] = ()
    simulated: bool = False
    note: str = ""
    close: Callable[[], None] = lambda: None


# GPUs


def gpu_counters(
    idle_gpus: int = 0,
    least_gpus: int = 0,
    environment: Mapping[str, str] = os.environ,
    open_meters: Callable[[], GpuMeters] = open_gpu_meters,
) -> Meters:
    """A counter for each GPU of the run. Raises nothing.

    The run has the GPUs that CUDA_VISIBLE_DEVICES leaves, except the last `idle_gpus`, which the
    engine does not use. If there are fewer than `least_gpus`, it uses other machines as well.

    If one GPU cannot be metered, none is: a sum without it would be too small. The same applies if
    GPU numbers are ambiguous (`are_numbered_by_bus`).
    """
    meters = open_meters()
    counters, why = _gpu_counters(meters, idle_gpus, environment)
    if not why and len(counters) < least_gpus:
        why = f"the engine has {least_gpus} GPUs, {len(counters)} of them on this machine"
    if why:
        meters.close()
        return Meters(absent=(Absent(GPU, NVML_LABEL, why),))
    return Meters(tuple(counters), close=meters.close)


def _gpu_counters(
    meters: GpuMeters, idle_gpus: int, environment: Mapping[str, str]
) -> tuple[list[Counter], str]:
    """The counters, or why there are none."""
    if meters.problem:
        return [], meters.problem
    gpus, why = _gpus_of_run(meters.gpus, idle_gpus, environment)
    counters = []
    for gpu in gpus:
        counter, why = _gpu_counter(gpu)
        if counter is None:
            return [], f"{_gpu_name(gpu)}: {why}"
        counters.append(counter)
    return counters, why


def _gpus_of_run(
    gpus: Sequence[GpuMeter], idle_gpus: int, environment: Mapping[str, str]
) -> tuple[list[GpuMeter], str]:
    """The GPUs of the run, or why they are not known."""
    visible = environment.get(_VISIBLE)
    names = None if visible is None else [name.strip() for name in visible.split(",")]
    if names and any(name.startswith(_MIG) for name in names):
        return [], f"{_VISIBLE} names {_PARTED}"
    visible_gpus = list(gpus) if names is None else gpus_named(gpus, names)
    if names is not None and len(visible_gpus) < len(list(filter(None, names))):
        return [], f"{_VISIBLE}={visible} names a GPU that NVML does not find"
    in_use = visible_gpus[: max(len(visible_gpus) - idle_gpus, 0)]
    by_number = names is None or any(name.isdecimal() for name in names)
    why = ""
    if not in_use:
        why = "the run has no GPU"
    elif any(gpu.parted for gpu in in_use):
        why = f"the run has {_PARTED}"
    elif by_number and len(in_use) < len(gpus) and not are_numbered_by_bus(gpus, environment):
        why = (
            "of several kinds of GPU, which one is number 0 is not known: "
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    return ([], why) if why else (in_use, "")


def _gpu_name(gpu: GpuMeter) -> str:
    return f"GPU {gpu.index} {gpu.name}"


def _gpu_counter(gpu: GpuMeter) -> tuple[Counter | None, str]:
    """The GPU's energy counter, else its power draw; None and the reason if it has neither."""
    try:
        gpu.energy_mj()
    except Exception as error:
        no_counter = str(error)
    else:
        return Counter(_gpu_name(gpu), GPU, NVML_LABEL, lambda: gpu.energy_mj() / 1e3), ""
    try:
        gpu.power_mw()
    except Exception as error:
        return None, f"neither an energy counter ({no_counter}) nor a power draw ({error})"
    note = f"{_gpu_name(gpu)} by its power draw, summed up: it has no energy counter ({no_counter})"
    read = lambda: gpu.power_mw() / 1e3  # noqa: E731 - of this GPU, as above
    return Counter(_gpu_name(gpu), GPU, NVML_LABEL, read, "power", note=note), ""


# CPUs


def cpu_counters(root: Path = POWERCAP) -> Meters:
    """A counter for each package, and for each package's memory (dram) if it is counted apart.

    Their sum counts nothing twice: core and uncore are parts of their package, and psys covers the
    whole platform. Raises nothing; if one counter cannot be read, none is returned.
    """
    if not root.is_dir():
        return _absent(f"this machine has no {root} (RAPL)")
    try:
        zones = sorted(path for path in root.iterdir() if _ZONE.fullmatch(path.name))
    except OSError as error:
        return _absent(f"{root}: {error.strerror}")
    counters = []
    for zone in zones:
        try:
            name = (zone / "name").read_text().strip()
            if not (name.startswith("package") or name == "dram"):
                continue
            range_j = int((zone / "max_energy_range_uj").read_text()) / 1e6
            _joules(zone / "energy_uj")
        except PermissionError as error:
            return _absent(f"{error.filename} is not this user's to read")
        except (OSError, ValueError) as error:
            return _absent(f"{zone}: {error}")
        part = name if name.startswith("package") else f"{name} of {zone.name.rpartition(':')[0]}"
        read = partial(_joules, zone / "energy_uj")
        counters.append(Counter(f"CPU {part}", CPU, RAPL_LABEL, read, range_j=range_j))
    return Meters(tuple(counters)) if counters else _absent(f"no package in {root}")


def _joules(energy_uj: Path) -> float:
    return int(energy_uj.read_text()) / 1e6


def _absent(why: str) -> Meters:
    return Meters(absent=(Absent(CPU, RAPL_LABEL, why),))
