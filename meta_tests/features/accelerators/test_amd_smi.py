"""GPUs of AMD's, through AMD SMI."""

import pytest

from meta_tests.features.accelerators.fake_amdsmi import gpu, install
from mlperf_suite.energy import gpu_counters
from mlperf_suite.features.accelerators.amd_smi import LABEL, open_meters
from mlperf_suite.hardware import Accelerator, accelerator_busy, accelerators

NOT_SUPPORTED = RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
MI300X = "AMD Instinct MI300X"


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
