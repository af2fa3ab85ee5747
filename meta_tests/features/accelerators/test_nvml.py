"""GPUs through NVML."""

import sys
import threading
from types import SimpleNamespace

import pytest

from meta_tests.fake_nvml import NVMLError, gpu, install
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
