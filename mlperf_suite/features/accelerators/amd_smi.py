"""AMD's GPUs, by AMD SMI.

Source of what it answers: "AMD SMI Python API reference" (rocm.docs.amd.com/projects/amdsmi).
`energy_accumulator`, before ROCm 6.4 `power`, times `counter_resolution` is the energy in µJ. What
a GPU does not report is the text N/A or an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from operator import itemgetter
from typing import Any

from mlperf_suite.energy import GPU
from mlperf_suite.features.accelerators.patience import in_time
from mlperf_suite.hardware import CUDA_VISIBLE, Accelerator, GpuMeter, GpuMeters

LABEL = "GPU energy by AMD SMI, not MLPerf Power"
VARIABLES = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", CUDA_VISIBLE)
"""ROCm's documentation, "GPU isolation techniques"."""
_meters = partial(GpuMeters, kind=GPU, label=LABEL, variables=VARIABLES)


def devices() -> tuple[Accelerator, ...]:
    """The GPUs that AMD SMI reports, as HIP numbers them; none without its library or driver."""
    return in_time(_query_gpus) or ()


def busy() -> bool | None:
    """Whether any GPU computes; None if unknown."""
    return in_time(_query_work)


def open_meters() -> GpuMeters:
    """The meters of every GPU, as HIP numbers them."""
    return in_time(_open_meters) or _meters(problem="AMD SMI does not answer")


@contextmanager
def _amd_smi() -> Iterator[Any]:
    import amdsmi

    amdsmi.amdsmi_init()
    try:
        yield amdsmi
    finally:
        amdsmi.amdsmi_shut_down()


def _query_gpus() -> tuple[Accelerator, ...]:
    with _amd_smi() as smi:
        return tuple(_accelerator(smi, handle) for _, handle in _handles(smi))


def _query_work() -> bool | None:
    with _amd_smi() as smi:
        shares = [smi.amdsmi_get_gpu_activity(gpu)["gfx_activity"] for _, gpu in _handles(smi)]
    return any(float(share) > 0 for share in shares) if shares else None


def _open_meters() -> GpuMeters:
    with ExitStack() as opened:
        smi = opened.enter_context(_amd_smi())
        meters = tuple(_meter(smi, number, handle) for number, handle in _handles(smi))
        return _meters(meters, "" if meters else "AMD SMI finds no GPU", opened.pop_all().close)


def _handles(smi: Any) -> list[tuple[int, Any]]:
    """Each GPU with HIP's number; AMD SMI lists them by bus."""
    numbered = []
    for place, handle in enumerate(smi.amdsmi_get_processor_handles()):
        hip = _ask(partial(_hip_number, smi, handle))
        numbered.append((place if hip is None else hip, handle))
    return sorted(numbered, key=itemgetter(0))


def _hip_number(smi: Any, handle: Any) -> int:
    return int(smi.amdsmi_get_gpu_enumeration_info(handle)["hip_id"])


def _ask(query: Callable[[], Any]) -> Any:
    """An answer; None if the GPU does not report it."""
    with suppress(Exception):
        answer = query()
        return None if answer in ("N/A", "") else answer
    return None


def _name(smi: Any, handle: Any) -> str:
    return str(_ask(lambda: smi.amdsmi_get_gpu_asic_info(handle)["market_name"]) or "AMD GPU")


def _uuid(smi: Any, handle: Any) -> str:
    return str(_ask(lambda: smi.amdsmi_get_gpu_device_uuid(handle)) or "")


def _accelerator(smi: Any, handle: Any) -> Accelerator:
    def pcie(field: str) -> Any:
        return _ask(lambda: int(smi.amdsmi_get_pcie_info(handle)["pcie_static"][field]))

    return Accelerator(
        _name(smi, handle),
        _uuid(smi, handle),
        str(_ask(lambda: smi.amdsmi_get_gpu_driver_info(handle)["driver_version"]) or ""),
        _ask(lambda: int(smi.amdsmi_get_gpu_memory_total(handle, smi.AmdSmiMemoryType.VRAM))),
        _ask(lambda: int(smi.amdsmi_get_clock_info(handle, smi.AmdSmiClkType.GFX)["max_clk"])),
        pcie("pcie_interface_version"),
        pcie("max_pcie_width"),
        maker="AMD",
    )


def _meter(smi: Any, number: int, handle: Any) -> GpuMeter:
    def energy_mj() -> int:
        count = smi.amdsmi_get_energy_count(handle)
        ticks = count.get("energy_accumulator", count.get("power"))
        return round(float(ticks) * float(count["counter_resolution"]) / 1e3)

    def power_mw() -> int:
        info = smi.amdsmi_get_power_info(handle)
        names = ("socket_power", "current_socket_power", "average_socket_power")
        watts = next(info[n] for n in names if info.get(n) not in (None, "N/A"))
        return round(float(watts) * 1e3)

    def limit_mw() -> int:
        return round(float(smi.amdsmi_get_power_cap_info(handle)["power_cap"]) / 1e3)

    bus = str(_ask(lambda: smi.amdsmi_get_gpu_device_bdf(handle)) or "").lower()
    names = _name(smi, handle), _uuid(smi, handle)
    return GpuMeter(number, *names, energy_mj, power_mw, limit_mw, bus=bus)
