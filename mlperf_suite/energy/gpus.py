"""The energy counters of a run's GPUs, through NVML."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from mlperf_suite.energy.counters import NVML_LABEL, Absent, Counter, Meters
from mlperf_suite.hardware import (
    GpuMeter,
    GpuMeters,
    are_numbered_by_bus,
    gpus_named,
    open_gpu_meters,
)

GPU = "GPU"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MIG = "MIG-"
_PARTED = "a part of a GPU (MIG), and NVML counts whole ones"


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
    counters, why = _of_run(meters, idle_gpus, environment)
    if not why and len(counters) < least_gpus:
        why = f"the engine has {least_gpus} GPUs, {len(counters)} of them on this machine"
    if why:
        meters.close()
        return Meters(absent=(Absent(GPU, NVML_LABEL, why),))
    return Meters(tuple(counters), close=meters.close)


def _of_run(
    meters: GpuMeters, idle_gpus: int, environment: Mapping[str, str]
) -> tuple[list[Counter], str]:
    """The counters, or why there are none."""
    if meters.problem:
        return [], meters.problem
    chosen, why = _chosen(meters.gpus, idle_gpus, environment)
    counters = []
    for gpu in chosen:
        counter, why = _counter(gpu)
        if counter is None:
            return [], f"{_name(gpu)}: {why}"
        counters.append(counter)
    return counters, why


def _chosen(
    gpus: Sequence[GpuMeter], idle_gpus: int, environment: Mapping[str, str]
) -> tuple[list[GpuMeter], str]:
    """The GPUs of the run, or why they are not known."""
    visible = environment.get(_VISIBLE)
    named = None if visible is None else [one.strip() for one in visible.split(",")]
    if named and any(one.startswith(_MIG) for one in named):
        return [], f"{_VISIBLE} names {_PARTED}"
    found = list(gpus) if named is None else gpus_named(gpus, named)
    if named is not None and len(found) < len(list(filter(None, named))):
        return [], f"{_VISIBLE}={visible} names a GPU that NVML does not find"
    chosen = found[: max(len(found) - idle_gpus, 0)]
    numbered = named is None or any(one.isdecimal() for one in named)
    why = ""
    if not chosen:
        why = "the run has no GPU"
    elif any(gpu.parted for gpu in chosen):
        why = f"the run has {_PARTED}"
    elif numbered and len(chosen) < len(gpus) and not are_numbered_by_bus(gpus, environment):
        why = (
            "of several kinds of GPU, which one is number 0 is not known: "
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    return ([], why) if why else (chosen, "")


def _name(gpu: GpuMeter) -> str:
    return f"GPU {gpu.index} {gpu.name}"


def _counter(gpu: GpuMeter) -> tuple[Counter | None, str]:
    """The GPU's energy counter, else its power draw; None and the reason if it has neither."""
    try:
        gpu.energy_mj()
    except Exception as error:
        no_counter = str(error)
    else:
        return Counter(_name(gpu), GPU, NVML_LABEL, lambda: gpu.energy_mj() / 1e3), ""
    try:
        gpu.power_mw()
    except Exception as error:
        return None, f"neither an energy counter ({no_counter}) nor a power draw ({error})"
    note = f"{_name(gpu)} by its power draw, summed up: it has no energy counter ({no_counter})"
    read = lambda: gpu.power_mw() / 1e3  # noqa: E731 - of this GPU, as above
    return Counter(_name(gpu), GPU, NVML_LABEL, read, "power", note=note), ""
