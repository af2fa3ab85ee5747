"""What the machine tells of itself: GPUs through NVML, and what its CPU computes."""

import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from meta_tests.fake_nvml import NVMLError, gpu, install
from mlperf_suite import hardware
from mlperf_suite.hardware import Gpu, choose_precision, cpu_computes_bf16, gpu_busy, gpus


def test_every_gpu_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, gpu(0), gpu(1))
    assert gpus() == tuple(
        Gpu("NVIDIA H100 80GB HBM3", f"GPU-{i}", "550.54.15", 80 * 2**30, 1980, 5, 16)
        for i in range(2)
    )


@pytest.mark.parametrize("error", [None, NVMLError("no driver"), OSError("libnvidia-ml.so.1")])
def test_no_library_or_no_driver_no_gpus(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    install(monkeypatch, gpu(0), fails_at_init=error)
    if error is None:
        monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpus() == ()
    assert gpu_busy() is None


def test_a_divided_gpu_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance of a seventh is not the GPU whose name NVML gives."""
    install(monkeypatch, gpu(0, MigMode=[1, 1]), gpu(1, MigMode=[0, 1]), gpu(2))
    names = [found.name for found in gpus()]
    assert names == ["NVIDIA H100 80GB HBM3 (MIG)", *["NVIDIA H100 80GB HBM3"] * 2]


def test_a_gpu_that_is_lost_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, gpu(0), NVMLError("GPU is lost"), gpu(2, Name=NVMLError("lost")), gpu(3))
    assert [g.uuid for g in gpus()] == ["GPU-0", "GPU-3"]


def test_what_a_driver_does_not_tell_is_none_and_older_bindings_give_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = NVMLError("Not Supported")
    told = {"Name": b"Tesla T4", "UUID": b"GPU-x", "MemoryInfo": unknown}
    install(monkeypatch, gpu(0, **told, MaxPcieLinkWidth=unknown), driver=b"450.1")
    assert gpus() == (Gpu("Tesla T4", "GPU-x", "450.1", None, 1980, 5, None),)


def test_a_driver_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    fake = install(monkeypatch, gpu(0))
    monkeypatch.setattr(fake, "nvmlDeviceGetCount", answers.wait)
    monkeypatch.setattr(hardware, "_NVML_PATIENCE_S", 0.1)
    try:
        assert gpus() == ()
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
    assert gpu_busy() is busy


@pytest.mark.parametrize(
    ("flag", "limit", "able", "why"),
    [
        ("avx512_vnni", "", False, ""),
        ("amx_bf16", "", True, "amx_bf16"),
        ("avx512_bf16", "", True, "avx512_bf16"),
        # oneDNN can be kept from it.
        ("avx512_bf16", "avx512_core", False, "ONEDNN_MAX_CPU_ISA=avx512_core"),
        ("avx512_bf16", "AVX512_CORE_VNNI", False, "ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI"),
        ("avx512_bf16", "AVX512_CORE_BF16", True, ""),
        ("avx512_bf16", "ALL", True, ""),
    ],
)
def test_bf16_follows_from_the_cpus_flags(
    tmp_path: Path, flag: str, limit: str, able: bool, why: str
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\nmodel name\t: a CPU\nflags\t\t: fpu avx2 {flag}\n\n" * 2)
    result, told = cpu_computes_bf16(file, {"ONEDNN_MAX_CPU_ISA": limit})
    assert result is able
    assert why in told
    assert cpu_computes_bf16(tmp_path / "none", {})[0] is False


def test_auto_takes_what_the_hardware_computes() -> None:
    able, unable = (lambda: (True, "it has")), (lambda: (False, "it has not"))
    assert choose_precision("auto", True, able).value == "bf16"
    assert choose_precision("auto", True, unable).value == "fp32"
    assert choose_precision("auto", True, unable).why == "auto: it has not"
    assert choose_precision("auto", False, unable).value == "auto"
    for precision in ("bf16", "fp16", "fp32"):
        for on_cpu in (True, False):
            choice = choose_precision(precision, on_cpu, unable)
            assert (choice.value, choice.why) == (precision, "as asked")
