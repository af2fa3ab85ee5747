"""What the CPU computes, and the precision that follows."""

from pathlib import Path

import pytest

from mlperf_suite.hardware import choose_precision, cpu_computes_bf16


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
