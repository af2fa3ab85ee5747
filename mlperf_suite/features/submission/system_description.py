"""The description of a system, as far as the machine itself shows it.

Fields that cannot be detected stay empty, for a person to fill in.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.features.submission_check.submission_rules import (
    SYSTEM_FIELDS_FILLED,
    SYSTEM_FIELDS_PRESENT,
)
from mlperf_suite.hardware import Accelerator, accelerators

NO_ACCELERATOR = "none"
"""The value of every accelerator field if a machine has no accelerator."""
_ETHERNET, _INFINIBAND = "1", "32"
"""Types of network cards, numbered as in /sys/class/net/*/type (linux/if_arp.h)."""


def describe_machine(
    made_on: Mapping[str, Any],
    root: Path = Path("/"),
    machines: Sequence[Mapping[str, Any]] = (),
    gpus_used: int | None = None,
) -> dict[str, Any]:
    """Fill in the checker's fields that this machine shows; the others stay empty.

    `made_on`: the system recorded by the runs, whose software versions are used; operating system
    and driver are those of this machine now. `root`: the parent folder of /proc, /sys and /etc.
    `machines`: the machines of several engines, as the engine described them; if one of them is
    another machine, the host fields stay empty for a person to fill in. `gpus_used`: how many of
    this machine's the engine computed on, None if that is not known.
    """
    described: dict[str, Any] = dict.fromkeys((*SYSTEM_FIELDS_FILLED, *SYSTEM_FIELDS_PRESENT), "")
    used = accelerators()[:gpus_used]
    described |= _processors(root) | _memory(root) | _storage(root) | _network(root)
    described |= _accelerators(used) | _software(made_on, used, root)
    processors = (
        f"{described['host_processors_per_node']}x {described['host_processor_model_name']}"
    )
    host_name = processors if described["host_processor_model_name"] else ""
    described["system_name"] = f"{len(used)}x {used[0].name}" if used else host_name
    described["number_of_nodes"] = "1"
    return described | _machine_fields(machines, described) if machines else described


def _machine_fields(
    machines: Sequence[Mapping[str, Any]], described: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that differ for several machines, or for one machine with several engines."""
    gpus = [int(machine.get("gpus") or 0) for machine in machines]
    kinds = list(dict.fromkeys(str(machine["gpu"]) for machine in machines if machine.get("gpu")))
    memories = [int(machine["gpu_memory"]) for machine in machines if machine.get("gpu_memory")]
    counts = list(dict.fromkeys(gpus))
    changed: dict[str, Any] = {"number_of_nodes": str(len(machines))}
    if kinds:
        changed |= {
            # The checker multiplies it: for uneven nodes a person must decide.
            "accelerators_per_node": str(counts[0]) if len(counts) == 1 else "",
            "accelerator_model_name": ", ".join(kinds),
        }
    if all(machine.get("here") for machine in machines):
        return changed
    # This machine is not the one that the engines ran on.
    changed |= {name: "" for name in described if name.startswith("host_")}
    changed |= dict.fromkeys(("accelerator_interconnect", "accelerator_frequency"), "")
    changed |= {"accelerator_host_interconnect": "", "operating_system": ""}
    memory = f"{min(memories) / 2**30:.0f} GiB" if memories else ""
    name = f"{len(machines)}x {counts[0]}x {kinds[0]}" if kinds and len(counts) == 1 else ""
    return changed | {"accelerator_memory_capacity": memory, "system_name": name}


def different_machine(made_on: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The differences between the runs' machine and this one, both as returned by
    describe_system."""
    return [
        f"{name} {made_on.get(name)}, here {here.get(name)}"
        for name in ("cpu", "cpu_count", "memory_gib", "gpus")
        if made_on.get(name) != here.get(name)
    ]


def _text(path: Path) -> str:
    """The text of a small system file; empty if there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _processors(root: Path) -> dict[str, str]:
    blocks = _text(root / "proc/cpuinfo").split("\n\n")
    cpus = [dict(re.findall(r"^(.+?)\s*:\s?(.*)$", block, re.MULTILINE)) for block in blocks]
    cpus = [cpu for cpu in cpus if cpu]
    sockets = {cpu.get("physical id", "0") for cpu in cpus}
    cores = {
        (cpu.get("physical id", "0"), cpu.get("core id", cpu.get("processor"))) for cpu in cpus
    }
    khz = _text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    return {
        "host_processor_model_name": cpus[0].get("model name", "") if cpus else "",
        "host_processors_per_node": str(len(sockets)) if cpus else "",
        "host_processor_core_count": str(len(cores) // len(sockets)) if cpus else "",
        "host_processor_frequency": f"{int(khz) / 1e6:.2f} GHz at most" if khz.isdigit() else "",
        "host_processor_caches": _caches(root),
        "host_processor_interconnect": "none, one processor" if len(sockets) == 1 else "",
    }


def _caches(root: Path) -> str:
    caches = []
    for folder in _folders(root / "sys/devices/system/cpu/cpu0/cache"):
        level, kind, size = (_text(folder / name) for name in ("level", "type", "size"))
        if level and size:
            caches.append(f"L{level} {kind.lower()} {size}")
    return ", ".join(caches)


def _memory(root: Path) -> dict[str, str]:
    total = re.search(r"^MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return {"host_memory_capacity": f"{int(total[1]) / 2**20:.0f} GiB" if total else ""}


def _storage(root: Path) -> dict[str, str]:
    """Disks, without virtual ones (loops, RAM, device mappers, network blocks)."""
    disks, kinds = 0, set()
    for folder in _folders(root / "sys/block"):
        sectors = _text(folder / "size")
        if re.match(r"(loop|ram|zram|dm-|md|sr|nbd|fd)", folder.name) or not sectors.isdigit():
            continue
        disks += int(sectors) * 512
        if folder.name.startswith("nvme"):
            kinds.add("NVMe SSD")
        elif folder.name.startswith("vd"):
            kinds.add("virtual disk")
        else:
            kinds.add("HDD" if _text(folder / "queue/rotational") == "1" else "SSD")
    capacity = f"{disks / 1e9:.0f} GB" if disks else ""
    return {"host_storage_capacity": capacity, "host_storage_type": ", ".join(sorted(kinds))}


def _network(root: Path) -> dict[str, str]:
    """Network cards: the interfaces that belong to a device."""
    cards = [p for p in _folders(root / "sys/class/net") if (p / "device").exists()]
    names = {_ETHERNET: "Ethernet", _INFINIBAND: "InfiniBand"}
    kinds = set()
    for card in cards:
        kind = names.get(_text(card / "type"))
        mbit = _text(card / "speed")
        speed = f" {int(mbit) / 1000:g} Gbit/s" if mbit.isdigit() else ""
        kinds |= {kind + speed} if kind else set()
    return {
        "host_network_card_count": str(len(cards)) if cards else "",
        "host_networking": ", ".join(sorted(kinds)),
    }


def _accelerators(used: Sequence[Accelerator]) -> dict[str, str]:
    if not used:
        fields = (*SYSTEM_FIELDS_FILLED, *SYSTEM_FIELDS_PRESENT)
        without = {name: NO_ACCELERATOR for name in fields if name.startswith("accelerator_")}
        return without | {"accelerators_per_node": "0"}
    first = used[0]
    memory, clock = first.memory_bytes, first.max_clock_mhz
    return {
        "accelerators_per_node": str(len(used)),
        "accelerator_model_name": first.name,
        "accelerator_memory_capacity": f"{memory / 2**30:.0f} GiB" if memory else "",
        "accelerator_frequency": f"{clock} MHz at most" if clock else "",
        "accelerator_host_interconnect": (
            f"PCIe Gen{first.pcie_generation} x{first.pcie_lanes}"
            if first.pcie_generation and first.pcie_lanes
            else ""
        ),
        **({"accelerator_interconnect": "none, one accelerator"} if len(used) == 1 else {}),
    }


def _software(
    made_on: Mapping[str, Any], used: Sequence[Accelerator], root: Path
) -> dict[str, str]:
    release = dict(re.findall(r'^(\w+)="?(.*?)"?$', _text(root / "etc/os-release"), re.MULTILINE))
    name = release.get("PRETTY_NAME")
    system = f"{name}, Linux {platform.release()}" if name else ""
    versions = {
        "Python": made_on.get("python_version"),
        "transformers": made_on.get("transformers_version"),
        "LoadGen": made_on.get("loadgen_version"),
        **({f"{used[0].maker} driver": used[0].driver} if used else {}),
    }
    framework = {"vLLM": made_on.get("vllm_version"), "PyTorch": made_on.get("torch_version")}
    return {
        "operating_system": system or f"{os.uname().sysname} {platform.release()}",
        "framework": _versions(framework),
        "other_software_stack": _versions(versions),
    }


def _versions(versions: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)
