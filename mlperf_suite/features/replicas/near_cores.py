"""The cores near a replica's GPUs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlperf_suite.hardware import are_numbered_by_bus, gpus_named, open_gpu_meters


def cores_near(
    names: Sequence[str],
    environment: Mapping[str, str] = os.environ,
    pci: Path = Path("/sys/bus/pci/devices"),
) -> tuple[int, ...]:
    """The cores that this process may use on the NUMA nodes of these GPUs.

    `names`: of the GPUs, as in CUDA_VISIBLE_DEVICES. Empty if the nodes are not known, if they have
    all of this process's cores, or if they have too few of them for the engine's processes (the one
    it is in, its core's and one for each GPU) to have one each. Raises nothing, and gives up on a
    driver that does not answer.

    Source: `local_cpulist` of a device in the Linux kernel's documentation of sysfs
    (Documentation/ABI/testing/sysfs-bus-pci).
    """
    if not names:
        return ()
    meters = open_gpu_meters()
    try:
        gpus = gpus_named(meters.gpus, names)
        numbered = any(name.isdecimal() for name in names)
        if numbered and not are_numbered_by_bus(meters.gpus, environment):
            return ()
        if len(gpus) < len(names) or not all(gpu.bus for gpu in gpus):
            return ()
        near = {core for gpu in gpus for core in _cpu_list(pci / gpu.bus / "local_cpulist")}
    except (OSError, ValueError):
        return ()
    finally:
        meters.close()
    usable = os.sched_getaffinity(0)
    cores = near & usable
    return tuple(sorted(cores)) if 2 + len(names) <= len(cores) < len(usable) else ()


def _cpu_list(path: Path) -> set[int]:
    """Parse Linux's list of cores, such as 0-3,8. Raises OSError and ValueError."""
    cores: set[int] = set()
    for part in filter(None, path.read_text().strip().split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores
