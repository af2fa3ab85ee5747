"""Print what vLLM's platform says of its devices, as JSON on the last line.

python -m mlperf_suite.features.accelerators.platform_query
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

from mlperf_suite.features.accelerators.intel import gaudis


def _count(platform: Any) -> int:
    """How many devices this process may use. vLLM's own platforms say it, others by torch's module
    of their device type; what nobody says is at least one device, or those that the variable
    names."""
    import torch

    for ask in (getattr(platform, "device_count", None), torch.accelerator.device_count):
        with suppress(Exception):
            if ask is not None and (count := int(ask())) > 0:
                return count
    named = os.environ.get(platform.device_control_env_var, "")
    return max(1, len(list(filter(None, named.split(",")))))


def _of_each(ask: Any, count: int) -> list[Any]:
    answers: list[Any] = []
    for number in range(count):
        answers.append(None)
        with suppress(Exception):
            answers[-1] = ask(number)
    return answers


def _tpus() -> list[tuple[int, str, int | None]]:
    """Number of the chip, name and memory of each device, by tpu-info 0.14: if a chip has several
    devices, it does not say the memory of each."""
    from tpu_info import device

    kind, count = device.get_local_chips()
    on_chip = kind.value.devices_per_chip
    memory = kind.value.hbm_gib * 2**30 if on_chip == 1 else None
    return [(number // on_chip, str(kind), memory) for number in range(count)]


def _devices(platform: Any) -> list[tuple[str | None, int | None]]:
    """Name and memory of each device that this process may use: vLLM's plugins name every Gaudi
    hpu and count one TPU, so that their makers' packages go first."""
    with suppress(Exception):
        kind = platform.device_type
        listed: list[Any] = [*(gaudis() if kind == "hpu" else _tpus() if kind == "tpu" else ())]
        named = os.environ.get(platform.device_control_env_var, "")
        if used := [row[1:3] for row in listed if not named or str(row[0]) in named.split(",")]:
            return used
    count = _count(platform)
    memories = _of_each(lambda n: int(platform.get_device_total_memory(n)), count)
    return list(zip(_of_each(platform.get_device_name, count), memories, strict=True))


def answer() -> dict[str, Any]:
    """The platform's own words; `plugin`, `distribution`: what brings it, if it is not vLLM's."""
    from vllm.platforms import current_platform as platform

    of_device = not (platform.is_cpu() or platform.is_unspecified())
    devices = _devices(platform) if of_device else []
    package = type(platform).__module__.partition(".")[0]
    points = [p for p in entry_points(group="vllm.platform_plugins") if package != "vllm"]
    mine = [p for p in points if p.module.partition(".")[0] == package] or points[:1]
    dist = mine[0].dist if mine else None
    dtypes: list[Any] = []
    with suppress(Exception):
        dtypes = [str(dtype).removeprefix("torch.") for dtype in platform.supported_dtypes]
    return {
        "platform": type(platform).__name__,
        "device_type": platform.device_type,
        "names": [name for name, _ in devices],
        "memories": [memory for _, memory in devices],
        "dtypes": dtypes,
        "communication": platform.dist_backend,
        "variable": platform.device_control_env_var,
        "plugin": mine[0].name if mine else "",
        "distribution": f"{dist.name} {dist.version}" if dist else "",
    }


if __name__ == "__main__":
    print(json.dumps(answer(), default=str), flush=True)
