"""A stand-in for amdsmi. Its answers have the fields, units and texts of AMD's "AMD SMI Python API
reference" (rocm.docs.amd.com/projects/amdsmi/en/docs-7.2.3/reference/amdsmi-py-api.html): none
was recorded on a GPU."""

import sys
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


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
