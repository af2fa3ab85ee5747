"""GPUs through NVML, and their counters."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from meta_tests.features.accelerators.fake_nvml import NVMLError, gpu, install
from mlperf_suite.energy import NVML_LABEL, Meters, gpu_counters
from mlperf_suite.features.accelerators import patience
from mlperf_suite.hardware import Accelerator, accelerator_busy, accelerators


def test_every_gpu_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, gpu(0), gpu(1))
    assert accelerators() == tuple(
        Accelerator("NVIDIA H100 80GB HBM3", f"GPU-{i}", "550.54.15", 80 * 2**30, 1980, 5, 16)
        for i in range(2)
    )


@pytest.mark.parametrize("error", [None, NVMLError("no driver"), OSError("libnvidia-ml.so.1")])
def test_no_library_or_no_driver_no_gpus(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    install(monkeypatch, gpu(0), fails_at_init=error)
    if error is None:
        monkeypatch.setitem(sys.modules, "pynvml", None)
    assert accelerators() == ()
    assert accelerator_busy() is None


def test_a_divided_gpu_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance of a seventh is not the GPU whose name NVML gives."""
    install(monkeypatch, gpu(0, MigMode=[1, 1]), gpu(1, MigMode=[0, 1]), gpu(2))
    names = [found.name for found in accelerators()]
    assert names == ["NVIDIA H100 80GB HBM3 (MIG)", *["NVIDIA H100 80GB HBM3"] * 2]


def test_a_gpu_that_is_lost_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, gpu(0), NVMLError("GPU is lost"), gpu(2, Name=NVMLError("lost")), gpu(3))
    assert [g.uuid for g in accelerators()] == ["GPU-0", "GPU-3"]


def test_what_a_driver_does_not_tell_is_none_and_older_bindings_give_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = NVMLError("Not Supported")
    told = {"Name": b"Tesla T4", "UUID": b"GPU-x", "MemoryInfo": unknown}
    install(monkeypatch, gpu(0, **told, MaxPcieLinkWidth=unknown), driver=b"450.1")
    assert accelerators() == (Accelerator("Tesla T4", "GPU-x", "450.1", None, 1980, 5, None),)


def test_a_driver_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    fake = install(monkeypatch, gpu(0))
    monkeypatch.setattr(fake, "nvmlDeviceGetCount", answers.wait)
    monkeypatch.setattr(patience, "PATIENCE_S", 0.1)
    try:
        assert accelerators() == ()
    finally:
        answers.set()


@pytest.mark.parametrize(
    ("shares", "busy"),
    [((0, 0), False), ((0, 1), True), ((), None), ((0, NVMLError("Not Supported")), None)],
)
def test_one_gpu_that_computes_is_enough_and_one_that_does_not_tell_leaves_it_unknown(
    monkeypatch: pytest.MonkeyPatch, shares: tuple[int | NVMLError, ...], busy: bool | None
) -> None:
    rates = [s if isinstance(s, NVMLError) else SimpleNamespace(gpu=s) for s in shares]
    install(monkeypatch, *(gpu(i, UtilizationRates=rate) for i, rate in enumerate(rates)))
    assert accelerator_busy() is busy


# Their counters

NOT_SUPPORTED = NVMLError("Not Supported")


def why(meters: Meters) -> str:
    assert meters.counters == ()
    (absent,) = meters.absent
    return absent.why


def test_each_gpu_is_read_in_joules(monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        monkeypatch,
        *(gpu(i, TotalEnergyConsumption=1500 * (i + 1)) for i in range(7)),
        gpu(7, TotalEnergyConsumption=12_000, EnforcedPowerLimit=NOT_SUPPORTED),
    )
    meters = gpu_counters(environment={})
    assert [counter.limit_watts for counter in meters.counters] == [700.0] * 7 + [None]
    assert [counter.read() for counter in meters.counters] == [1.5 * (i + 1) for i in range(8)]
    assert {(counter.label, counter.gives, counter.note) for counter in meters.counters} == {
        (NVML_LABEL, "energy", "")
    }
    assert meters.counters[3].name == "GPU 3 NVIDIA H100 80GB HBM3"


ALIKE = [gpu(number) for number in range(4)]
UNLIKE = [gpu(0, Name="NVIDIA T400"), gpu(1), gpu(2)]
BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
UNKNOWN = (
    "of several kinds of GPU, which one is number 0 is not known: set CUDA_DEVICE_ORDER=PCI_BUS_ID"
)


@pytest.mark.parametrize(
    ("gpus", "visible", "environment", "idle", "numbers"),
    [
        (ALIKE, None, {}, 0, [0, 1, 2, 3]),
        (ALIKE, None, {}, 3, [0]),
        (ALIKE, "2,0", {}, 0, [2, 0]),
        (ALIKE, "3, 1", {}, 1, [3]),
        (ALIKE, "GPU-2", {}, 0, [2]),
        (ALIKE, "", {}, 0, "no GPU"),
        (ALIKE, None, {}, 4, "no GPU"),
        (ALIKE, "0,7", {}, 0, "names a GPU that the driver does not list"),
        (ALIKE, "MIG-1234", {}, 0, "a part of a GPU"),
        # The beginning of several.
        (ALIKE, "GPU-", {}, 0, "names a GPU that the driver does not list"),
        (UNLIKE, None, {}, 0, [0, 1, 2]),
        (UNLIKE, "2,1,0", {}, 0, [2, 1, 0]),
        (UNLIKE, "GPU-1,GPU-0", {}, 1, [1]),
        (UNLIKE, "0", BY_BUS, 0, [0]),
        (UNLIKE, None, BY_BUS, 2, [0]),
        (UNLIKE, "0", {}, 0, UNKNOWN),
        (UNLIKE, "0,GPU-1", {}, 0, UNKNOWN),
        (UNLIKE, "0", {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, 0, UNKNOWN),
        (UNLIKE, None, {}, 1, UNKNOWN),
    ],
)
def test_only_the_gpus_of_the_run_are_read_and_none_that_cannot_be_told_apart(
    monkeypatch: pytest.MonkeyPatch,
    gpus: list[Any],
    visible: str | None,
    environment: dict[str, str],
    idle: int,
    numbers: list[int] | str,
) -> None:
    """A number means a GPU only where CUDA counts as NVML does."""
    install(monkeypatch, *gpus)
    of_cuda = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    meters = gpu_counters(idle, environment=environment | of_cuda)
    if isinstance(numbers, str):
        assert numbers in why(meters)
    else:
        assert [int(counter.name.split()[1]) for counter in meters.counters] == numbers


def test_of_a_gpu_in_parts_the_run_has_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, gpu(0, MigMode=[1, 1]), gpu(1, MigMode=[0, 1]))
    assert "a part of a GPU (MIG)" in why(gpu_counters(environment={"CUDA_VISIBLE_DEVICES": "0"}))
    assert len(gpu_counters(environment={"CUDA_VISIBLE_DEVICES": "1"}).counters) == 1
    # Nor is a part the whole of a run on several machines.
    install(monkeypatch, *map(gpu, range(8)))
    assert len(gpu_counters(0, 8, {}).counters) == 8
    assert why(gpu_counters(0, 16, {})) == "the engine has 16 GPUs, 8 of them on this machine"


def test_without_an_energy_counter_the_power_draw_is_read_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, gpu(0), gpu(1, TotalEnergyConsumption=NOT_SUPPORTED))
    counter, draw = gpu_counters(environment={}).counters
    assert (counter.gives, counter.note) == ("energy", "")
    assert (draw.gives, draw.read()) == ("power", 70.0)
    assert "by its power draw" in draw.note and "Not Supported" in draw.note
    # One GPU that tells nothing leaves no sum.
    silent = gpu(1, TotalEnergyConsumption=NOT_SUPPORTED, PowerUsage=NOT_SUPPORTED)
    install(monkeypatch, gpu(0), silent)
    assert why(gpu_counters(environment={})) == (
        "GPU 1 NVIDIA H100 80GB HBM3: neither an energy counter (Not Supported) nor a power draw "
        "(Not Supported)"
    )


def test_a_machine_without_nvml_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, fails_at_init=NVMLError("NVML Shared Library Not Found"))
    assert why(gpu_counters(environment={})) == "NVML: NVML Shared Library Not Found"
    install(monkeypatch)
    assert why(gpu_counters(environment={})) == "NVML finds no GPU"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "not installed" in why(gpu_counters(environment={}))


def test_nvml_is_let_go_again(monkeypatch: pytest.MonkeyPatch) -> None:
    handles: list[int] = []
    fake: Any = install(monkeypatch, gpu(0))
    init = fake.nvmlInit

    def hold() -> None:
        init()
        handles.append(1)

    fake.nvmlInit = hold
    fake.nvmlShutdown = handles.pop
    meters = gpu_counters(environment={})
    assert handles == [1]
    meters.close()
    assert handles == []
    gpu_counters(environment={"CUDA_VISIBLE_DEVICES": ""})
    assert handles == []
