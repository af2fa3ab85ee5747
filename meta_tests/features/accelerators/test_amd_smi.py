"""GPUs of AMD's, through a stand-in for AMD SMI.

Its answers have the fields, units and texts of AMD's "AMD SMI Python API reference"
(rocm.docs.amd.com/projects/amdsmi/en/docs-7.2.3/reference/amdsmi-py-api.html): none was recorded on
a GPU.
"""

import sys
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mlperf_suite.energy import gpu_counters
from mlperf_suite.features.accelerators.amd_smi import LABEL, open_meters
from mlperf_suite.hardware import Accelerator, accelerator_busy, accelerators

NOT_SUPPORTED = RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
MI300X = "AMD Instinct MI300X"


def gpu(hip_id: int, **answers: object) -> dict[str, object]:
    """What it answers of a GPU, by question; an exception in an answer's place is raised."""
    return {
        "gpu_enumeration_info": {"drm_render": 128, "hip_id": hip_id},
        "gpu_asic_info": {"market_name": "AMD Instinct MI300X", "device_id": "0x74a1"},
        "gpu_device_uuid": f"uuid-{hip_id}",
        "gpu_device_bdf": f"0000:{hip_id}C:00.0",
        "gpu_driver_info": {"driver_name": "amdgpu", "driver_version": "6.12.12"},
        "gpu_memory_total": 192 * 2**30,
        "clock_info": {"clk": 132, "max_clk": 2100},
        "pcie_info": {"pcie_static": {"max_pcie_width": 16, "pcie_interface_version": 5}},
        "gpu_activity": {"gfx_activity": 0, "mm_activity": "N/A"},
        "energy_count": {"energy_accumulator": 100_000_000, "counter_resolution": 15.3},
        "power_info": {"current_socket_power": 140, "average_socket_power": "N/A"},
        "power_cap_info": {"power_cap": 750_000_000},
    } | answers


def install(monkeypatch: pytest.MonkeyPatch, *gpus: dict[str, object]) -> list[int]:
    """Make `import amdsmi` give a fake with these GPUs. Returns how often it is open, in a list."""
    fake: Any = ModuleType("amdsmi")
    is_open = [0]

    def ask(question: str, handle: dict[str, object], *arguments: object) -> object:
        assert is_open == [1]
        answer = handle[question]
        if isinstance(answer, Exception):
            raise answer
        return answer

    fake.AmdSmiMemoryType, fake.AmdSmiClkType = SimpleNamespace(VRAM=0), SimpleNamespace(GFX=0)
    fake.amdsmi_init = lambda: is_open.append(is_open.pop() + 1)
    fake.amdsmi_shut_down = lambda: is_open.append(is_open.pop() - 1)
    fake.amdsmi_get_processor_handles = lambda: list(gpus)
    for question in gpu(0):
        setattr(fake, f"amdsmi_get_{question}", partial(ask, question))
    monkeypatch.setitem(sys.modules, "amdsmi", fake)
    return is_open


def test_gpus_of_amd_are_listed_as_hip_numbers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {"gpu_memory_total": NOT_SUPPORTED, "clock_info": {"max_clk": "N/A"}}
    busy = {"gpu_activity": {"gfx_activity": 37}}
    is_open = install(monkeypatch, gpu(1, **unknown, **busy), gpu(0))
    whole = Accelerator(MI300X, "uuid-0", "6.12.12", 192 * 2**30, 2100, 5, 16, "AMD")
    other = Accelerator(MI300X, "uuid-1", "6.12.12", None, None, 5, 16, "AMD")
    assert accelerators() == (whole, other)
    assert accelerator_busy() is True
    assert is_open == [0]
    install(monkeypatch, gpu(0, gpu_activity={"gfx_activity": "N/A"}))
    assert accelerator_busy() is None


def test_energy_is_ticks_times_their_worth_or_else_the_power_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tick of 15.3 µJ, a hundred million times."""
    before_rocm_6_4 = {"power": 200_000_000, "counter_resolution": 15.3}
    older = gpu(1, energy_count=before_rocm_6_4, power_cap_info=NOT_SUPPORTED)
    is_open = install(monkeypatch, gpu(2, energy_count=NOT_SUPPORTED), older, gpu(0))
    meters = gpu_counters(environment={})
    assert [counter.read() for counter in meters.counters] == [1530.0, 3060.0, 140.0]
    assert [counter.gives for counter in meters.counters] == ["energy", "energy", "power"]
    assert [counter.limit_watts for counter in meters.counters] == [750.0, None, 750.0]
    assert {counter.label for counter in meters.counters} == {LABEL}
    meters.close()
    assert is_open == [0]
    # One variable may count what another left.
    for hip, other, names in (("1", "CUDA", ["GPU 1"]), ("0", "ROCR", [])):
        visible = {"HIP_VISIBLE_DEVICES": hip, f"{other}_VISIBLE_DEVICES": "1"}
        of_run = gpu_counters(environment=visible)
        assert [counter.name.removesuffix(f" {MI300X}") for counter in of_run.counters] == names
        assert names or "name different GPUs" in of_run.absent[0].why
        of_run.close()
    is_open = install(monkeypatch, {})
    monkeypatch.delattr("amdsmi.amdsmi_get_processor_handles")
    assert open_meters().problem and is_open == [0]
