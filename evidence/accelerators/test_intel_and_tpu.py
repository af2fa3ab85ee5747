"""Gaudi, Intel's GPUs and TPUs, by answers as their makers document them: none was recorded."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mlperf_suite.energy import gpu_counters
from mlperf_suite.features.accelerators import intel, nvml, vllm_platform
from mlperf_suite.features.accelerators.platform_query import answer
from mlperf_suite.hardware import Accelerator, GpuMeters

GIB = 2**30
ANSWERS: dict[str, object] = {
    **{"Name": b"HL-325L", "UUID": b"01P1-HL", "MemoryInfo": SimpleNamespace(total=128 * GIB)},
    **{"TotalEnergyConsumption": 5_000, "PowerUsage": 300_000, "PowerManagementLimit": 850_000},
}


class Platform(SimpleNamespace):
    """A platform of vLLM that names its device as vLLM's plugins do, and nothing more."""

    dist_backend, supported_dtypes = "", ()
    is_cpu = is_unspecified = staticmethod(lambda: False)
    get_device_name = staticmethod(lambda number: "hpu")


def install(monkeypatch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    fake = ModuleType(name)
    vars(fake).update(members)
    monkeypatch.setitem(sys.modules, name, fake)


def devices(monkeypatch: pytest.MonkeyPatch, kind: str, variable: str) -> list[Any]:
    platform = Platform(device_type=kind, device_control_env_var=variable)
    install(monkeypatch, "vllm")
    install(monkeypatch, "vllm.platforms", current_platform=platform)
    found = vllm_platform.devices_from(answer())
    return [(device.name, device.memory_bytes) for device in found]


@pytest.mark.parametrize(("visible", "used"), [(None, 4), ("5,6", 2)])
def test_gaudis_are_named_and_metered_by_hlml_as_modules(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, used: int
) -> None:
    asked = {f"hlmlDeviceGet{query}": lambda _, told=told: told for query, told in ANSWERS.items()}
    install(
        monkeypatch,
        "pyhlml",
        hlmlInit=lambda: None,
        hlmlShutdown=lambda: None,
        hlmlDeviceGetCount=lambda: 4,
        hlmlDeviceGetHandleByIndex=[6, 4, 7, 5].__getitem__,
        hlmlDeviceGetModuleID=lambda handle: handle,
        **asked,
    )
    if visible:
        monkeypatch.setenv(intel.MODULES, visible)
    assert devices(monkeypatch, "hpu", intel.MODULES) == [("HL-325L", 128 * GIB)] * used
    gaudi = Accelerator("HL-325L", maker="", variable=intel.MODULES)
    monkeypatch.setattr(vllm_platform, "devices_of_plugin", lambda: (gaudi,) * used)
    environment = {intel.MODULES: visible} if visible else {}
    meters = gpu_counters(0, used, environment)
    assert [(c.read(), c.limit_watts) for c in meters.counters] == [(5.0, 850.0)] * used
    # Of a part of them, only the modules that the variable names are known.
    part = gpu_counters(1, 0, environment)
    assert [c.name for c in part.counters] == (["GPU 5 HL-325L"] if visible else [])
    assert visible or f"set {intel.MODULES}" in part.absent[0].why
    monkeypatch.setitem(sys.modules, "pyhlml", None)
    assert "no counter" in gpu_counters(environment={}).absent[0].why


def test_cards_of_intel_are_metered_by_hwmon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "xe": {"energy1_input": "7000000", "energy2_input": "6000000"},
        "i915": {"energy1_input": "9000000"},
        "i915_gt0": {"energy1_input": "1"},
        "nvme": {"temp1_input": "30000"},
    }
    for number, (driver, counters) in enumerate(files.items()):
        folder = tmp_path / f"hwmon{number}"
        folder.mkdir()
        (folder / "device").symlink_to(tmp_path / f"0000:{9 - number}a:00.0")
        for name, text in {"name": driver, **counters}.items():
            (folder / name).write_text(f"{text}\n")
    monkeypatch.setattr(intel, "_HWMON", tmp_path)
    monkeypatch.setattr(nvml, "open_meters", lambda: GpuMeters(problem="no NVML"))
    card = Accelerator("Intel(R) Arc(TM)", maker="", variable=intel.MASK)
    for cards, order, idle, told in (
        *((2, "", 0, [9.0, 7.0]), (2, "1", 1, [9.0]), (2, "", 1, "order is not known")),
        (4, "1", 0, "2 of 4 devices"),
    ):
        monkeypatch.setattr(vllm_platform, "devices_of_build", lambda cards=cards: (card,) * cards)
        monkeypatch.setenv("ZE_ENABLE_PCI_ID_DEVICE_ORDER", order)
        meters = gpu_counters(idle, environment={})
        read = [counter.read() for counter in meters.counters]
        assert read == told if isinstance(told, list) else told in meters.absent[0].why
    monkeypatch.setenv(intel.MASK, "0")
    assert intel.MASK in gpu_counters(environment={}).absent[0].why


def test_tpus_are_counted_by_tpu_info(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's plugin says neither how many there are nor their memory."""
    for kind, per_chip, visible, found in (
        ("TPU v6e chip", 1, "", [("TPU v6e chip", 32 * GIB)] * 4),
        ("TPU v6e chip", 1, "0,3", [("TPU v6e chip", 32 * GIB)] * 2),
        ("TPU7x chip", 2, "1", [("TPU7x chip", None)] * 2),
    ):
        info = SimpleNamespace(hbm_gib=32, devices_per_chip=per_chip)
        chip = type("Chip", (), {"value": info, "__str__": lambda _, kind=kind: kind})()
        device = SimpleNamespace(get_local_chips=lambda chip=chip: (chip, 4))
        install(monkeypatch, "tpu_info", device=device)
        monkeypatch.setenv("TPU_VISIBLE_CHIPS", visible)
        assert devices(monkeypatch, "tpu", "TPU_VISIBLE_CHIPS") == found
