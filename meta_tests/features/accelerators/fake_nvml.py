"""A stand-in for pynvml, with whatever GPUs a test wants to see."""

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class NVMLError(Exception):
    """As pynvml's."""


def gpu(index: int, **fields: object) -> dict[str, object]:
    """What the fake tells of a GPU; an NVMLError in a field's place is raised, and what can be
    called there is called for what it tells."""
    defaults: dict[str, object] = {
        "Name": "NVIDIA H100 80GB HBM3",
        "UUID": f"GPU-{index}",
        "MemoryInfo": SimpleNamespace(total=80 * 2**30),
        "MaxClockInfo": 1980,
        "MaxPcieLinkGeneration": 5,
        "MaxPcieLinkWidth": 16,
        "UtilizationRates": SimpleNamespace(gpu=0),
        "TotalEnergyConsumption": 1_000_000,
        "PowerUsage": 70_000,
        "EnforcedPowerLimit": 700_000,
        "MigMode": NVMLError("Not Supported"),
        "PciInfo": SimpleNamespace(busId=f"00000000:{index:02X}:00.0".encode()),
    }
    return defaults | fields


def install(
    monkeypatch: pytest.MonkeyPatch,
    *fields: dict[str, object] | NVMLError,
    fails_at_init: Exception | None = None,
    driver: object = "550.54.15",
) -> Any:
    """Make `import pynvml` give a fake with these GPUs; an error stands for a GPU that is lost."""
    fake: Any = ModuleType("pynvml")

    def init() -> None:
        if fails_at_init is not None:
            raise fails_at_init

    def handle(index: int) -> dict[str, object]:
        gpu_fields = fields[index]
        if isinstance(gpu_fields, NVMLError):
            raise gpu_fields
        return gpu_fields

    def field(name: str) -> Callable[..., object]:
        def ask(of: dict[str, object], *arguments: object) -> object:
            value = of[name]
            if callable(value):
                value = value()
            if isinstance(value, Exception):
                raise value
            return value

        return ask

    fake.NVMLError, fake.NVML_CLOCK_SM = NVMLError, 1
    fake.nvmlInit, fake.nvmlShutdown = init, lambda: None
    fake.nvmlSystemGetDriverVersion = lambda: driver
    fake.nvmlDeviceGetCount = lambda: len(fields)
    fake.nvmlDeviceGetHandleByIndex = handle
    for name in gpu(0):
        setattr(fake, f"nvmlDeviceGet{name}", field(name))
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake
