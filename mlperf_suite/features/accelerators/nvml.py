"""NVIDIA's GPUs, by NVML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from mlperf_suite.energy import GPU, NVML_LABEL
from mlperf_suite.features.accelerators.patience import in_time
from mlperf_suite.hardware import Accelerator, GpuMeter, GpuMeters

_Value = TypeVar("_Value")
_meters = partial(GpuMeters, kind=GPU, label=NVML_LABEL)


def devices() -> tuple[Accelerator, ...]:
    """The GPUs that NVML reports, in its order; none if its library or the driver is absent.

    Leaves out a GPU that does not answer (it fell off the bus). Raises nothing, and gives up on a
    driver that does not answer.
    """
    return in_time(_query_gpus) or ()


def busy() -> bool | None:
    """Whether any GPU has computed within the last second; None if unknown."""
    return in_time(_query_work)


def open_meters() -> GpuMeters:
    """The meters of every GPU, in NVML's order.

    Raises nothing, and gives up on a driver that does not answer. Source: NVML's API reference,
    nvmlDeviceGetTotalEnergyConsumption (Volta or newer), nvmlDeviceGetPowerUsage and
    nvmlDeviceGetEnforcedPowerLimit.
    """
    return in_time(_open_meters) or _meters(problem="NVML does not answer")


def _open_meters() -> GpuMeters:
    closing = ExitStack()
    try:
        nvml = closing.enter_context(_nvml())
        meters = tuple(_meters_of(nvml))
    except ImportError:
        return _meters(problem="the package nvidia-ml-py is not installed")
    except Exception as error:
        closing.close()
        return _meters(problem=f"NVML: {error}")
    return _meters(meters, "" if meters else "NVML finds no GPU", closing.close)


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


@contextmanager
def _nvml() -> Iterator[Any]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        with suppress(Exception):
            pynvml.nvmlShutdown()


def _handles(nvml: Any) -> Iterator[tuple[int, Any]]:
    for index in range(nvml.nvmlDeviceGetCount()):
        with suppress(nvml.NVMLError):
            yield index, nvml.nvmlDeviceGetHandleByIndex(index)


def _query_gpus() -> tuple[Accelerator, ...]:
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
                Accelerator(
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
