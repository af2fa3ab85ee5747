"""GPUs of AMD's, through AMD SMI."""

import pytest

from meta_tests.features.accelerators.fake_amdsmi import gpu, install
from mlperf_suite.energy import gpu_counters
from mlperf_suite.features.accelerators.amd_smi import LABEL
from mlperf_suite.hardware import Accelerator, accelerator_busy, accelerators

NOT_SUPPORTED = RuntimeError("AMDSMI_STATUS_NOT_SUPPORTED")
MI300X = "AMD Instinct MI300X"


def test_gpus_of_amd_are_listed_as_hip_numbers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {"gpu_memory_total": NOT_SUPPORTED, "clock_info": {"max_clk": "N/A"}}
    is_open = install(monkeypatch, gpu(1, **unknown), gpu(0))
    whole = Accelerator(MI300X, "uuid-0", "6.12.12", 192 * 2**30, 2100, 5, 16, "AMD")
    other = Accelerator(MI300X, "uuid-1", "6.12.12", None, None, 5, 16, "AMD")
    assert accelerators() == (whole, other)
    assert accelerator_busy() is False
    assert is_open == [0]


@pytest.mark.parametrize(("activity", "busy"), [(37, True), ("N/A", None), (NOT_SUPPORTED, None)])
def test_work_is_seen_or_unknown(
    monkeypatch: pytest.MonkeyPatch, activity: object, busy: bool | None
) -> None:
    answer = {"gfx_activity": activity} if not isinstance(activity, Exception) else activity
    install(monkeypatch, gpu(0), gpu(1, gpu_activity=answer))
    assert accelerator_busy() is busy


def test_energy_is_ticks_times_their_worth_or_else_the_power_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before_rocm_6_4 = {"power": 200_000_000, "counter_resolution": 15.3}
    is_open = install(
        monkeypatch,
        gpu(2, energy_count=NOT_SUPPORTED),
        gpu(1, energy_count=before_rocm_6_4, power_cap_info=NOT_SUPPORTED),
        gpu(0),
    )
    meters = gpu_counters(environment={})
    assert [counter.read() for counter in meters.counters] == [1530.0, 3060.0, 140.0]
    assert [counter.gives for counter in meters.counters] == ["energy", "energy", "power"]
    assert [counter.limit_watts for counter in meters.counters] == [750.0, None, 750.0]
    assert {counter.label for counter in meters.counters} == {LABEL}
    assert meters.counters[0].name == f"GPU 0 {MI300X}"
    meters.close()
    assert is_open == [0]


@pytest.mark.parametrize(
    ("environment", "numbers"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, "1"),
        ({"CUDA_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "1,0"}, "10"),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, "name different GPUs"),
    ],
)
def test_only_the_gpus_of_the_run_are_read(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], numbers: str
) -> None:
    """One variable may count what another left."""
    install(monkeypatch, gpu(0), gpu(1))
    meters = gpu_counters(environment=environment)
    if meters.absent:
        assert numbers in meters.absent[0].why
    else:
        assert "".join(counter.name.split()[1] for counter in meters.counters) == numbers
