"""Intel's Gaudi by HLML, and the energy of its GPUs by Linux's hwmon; neither tried on a device.

Sources: docstrings of habana-pyhlml 1.24, which answers as NVML does, in mJ, mW and bytes;
"Gaudi-to-process Assignment" (docs.habana.ai); Level Zero's specification, "Environment Variables";
the kernel's Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon and -xe-hwmon: energy1_input
counts a card's µJ, energy2_input its package's.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.energy import GPU
from mlperf_suite.features.accelerators.patience import in_time
from mlperf_suite.hardware import NO_COUNTER, GpuMeter, GpuMeters

MODULES, MASK = "HABANA_VISIBLE_MODULES", "ZE_AFFINITY_MASK"
_BY_BUS = "ZE_ENABLE_PCI_ID_DEVICE_ORDER"
_HWMON = Path("/sys/class/hwmon")


def gaudis() -> list[tuple[int, str, int, Any]]:
    """Module, name, memory in bytes and HLML's handle of each; HLML stays open. Raises whatever
    pyhlml does."""
    import pyhlml as hlml

    hlml.hlmlInit()
    handles = map(hlml.hlmlDeviceGetHandleByIndex, range(hlml.hlmlDeviceGetCount()))
    told = (hlml.hlmlDeviceGetModuleID, hlml.hlmlDeviceGetName, hlml.hlmlDeviceGetMemoryInfo)
    rows = ((*(ask(handle) for ask in told), handle) for handle in handles)
    return [(module, name.decode(), int(size.total), h) for module, name, size, h in rows]


def gaudi_meters() -> GpuMeters:
    """The meters of every Gaudi, numbered as modules."""
    return in_time(_open_hlml) or GpuMeters(problem=f"{NO_COUNTER} by HLML (habana-pyhlml)")


def _open_hlml() -> GpuMeters:
    import pyhlml

    energy, power = pyhlml.hlmlDeviceGetTotalEnergyConsumption, pyhlml.hlmlDeviceGetPowerUsage
    limit, uuid = pyhlml.hlmlDeviceGetPowerManagementLimit, pyhlml.hlmlDeviceGetUUID
    meters = (
        GpuMeter(
            n, name, uuid(h).decode(), partial(energy, h), partial(power, h), partial(limit, h)
        )
        for n, name, _, h in gaudis()
    )
    why = "" if MODULES in os.environ else f"the engine may take any module: set {MODULES}"
    label, close = "HPU energy by HLML, not MLPerf Power", pyhlml.hlmlShutdown
    return GpuMeters(tuple(meters), "", close, GPU, label, (MODULES,), why)


def gpu_meters(devices: int) -> GpuMeters:
    """The meters of every card, numbered by bus, if they are as many as vLLM's `devices`."""
    if MASK in os.environ:
        return GpuMeters(problem=f"which cards {MASK} leaves is not known")
    counters = in_time(lambda: _counters(_HWMON)) or []
    if len(counters) != devices:
        return GpuMeters(problem=f"hwmon counts for {len(counters)} of {devices} devices")
    why = "" if os.environ.get(_BY_BUS) == "1" else f"the order is not known: set {_BY_BUS}=1"
    asks = ((partial(_energy_mj, counter), _unknown, _unknown) for counter in counters)
    meters = tuple(GpuMeter(number, "Intel GPU", "", *ask) for number, ask in enumerate(asks))
    label = "GPU energy by hwmon, not MLPerf Power"
    return GpuMeters(meters, kind=GPU, label=label, variables=(), unnumbered=why)


def _counters(hwmon: Path) -> list[Path]:
    """The energy counter of each card, in the order of its PCI addresses."""
    # Folders of other names, such as i915_gt0, count parts of a card.
    folders = [f for f in hwmon.iterdir() if (f / "name").read_text().strip() in ("i915", "xe")]
    folders.sort(key=lambda folder: (folder / "device").resolve().name)
    return [min(counters) for f in folders if (counters := list(f.glob("energy[12]_input")))]


def _energy_mj(counter: Path) -> int:
    return round(int(counter.read_text()) / 1e3)


def _unknown() -> int:
    raise NotImplementedError("hwmon does not say")
