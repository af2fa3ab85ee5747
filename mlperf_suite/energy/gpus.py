"""The energy counters of the GPUs that a run is made on, through NVML."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from mlperf_suite.energy.counters import NVML_LABEL, Absent, Counter, Meters
from mlperf_suite.hardware import GpuMeter, GpuMeters, open_gpu_meters

GPU = "GPU"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MIG = "MIG-"


def gpu_counters(
    idle_gpus: int = 0,
    least_gpus: int = 0,
    environment: Mapping[str, str] = os.environ,
    open_meters: Callable[[], GpuMeters] = open_gpu_meters,
) -> Meters:
    """A counter for each GPU of the run: those that CUDA_VISIBLE_DEVICES leaves, without the last
    `idle_gpus` of them, which the engine does not use. With fewer than `least_gpus` the run is on
    other machines as well. Raises nothing.

    Where one of them cannot be metered none is: a sum without it would be too small.
    """
    meters = open_meters()
    counters, why = _of_run(meters, idle_gpus, environment.get(_VISIBLE))
    if not why and len(counters) < least_gpus:
        why = f"the engine has {least_gpus} GPUs, {len(counters)} of them on this machine"
    if why:
        meters.close()
        return Meters(absent=(Absent(GPU, NVML_LABEL, why),))
    return Meters(tuple(counters), close=meters.close)


def _of_run(meters: GpuMeters, idle_gpus: int, visible: str | None) -> tuple[list[Counter], str]:
    """The counters, or why there are none."""
    if meters.problem:
        return [], meters.problem
    named = None if visible is None else [one.strip() for one in visible.split(",")]
    if named and any(one.startswith(_MIG) for one in named):
        return [], f"{_VISIBLE} names a part of a GPU (MIG), and NVML counts whole ones"
    chosen = list(meters.gpus) if named is None else _named(meters.gpus, named)
    if named is not None and len(chosen) < len(list(filter(None, named))):
        return [], f"{_VISIBLE}={visible} names a GPU that NVML does not find"
    chosen = chosen[: max(len(chosen) - idle_gpus, 0)]
    if not chosen:
        return [], "the run has no GPU"
    counters = []
    for gpu in chosen:
        counter, why = _counter(gpu)
        if counter is None:
            return [], f"{_name(gpu)}: {why}"
        counters.append(counter)
    return counters, ""


def _named(gpus: Sequence[GpuMeter], names: Sequence[str]) -> list[GpuMeter]:
    """The GPUs of these numbers or beginnings of UUIDs, up to the first that there is not, as CUDA
    takes them."""
    found = []
    for name in names:
        fits = [g for g in gpus if str(g.index) == name or (name and g.uuid.startswith(name))]
        if not fits:
            break
        found.append(fits[0])
    return found


def _name(gpu: GpuMeter) -> str:
    return f"GPU {gpu.index} {gpu.name}"


def _counter(gpu: GpuMeter) -> tuple[Counter | None, str]:
    """The GPU's energy counter, else its power draw; None and why where it tells neither."""
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
