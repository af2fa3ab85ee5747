"""What vLLM's platform says of its devices; a session on it is in evidence/accelerators/."""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.accelerators.made_up_platform import DEVICE, install
from mlperf_suite.energy import gpu_counters
from mlperf_suite.features.accelerators import vllm_platform
from mlperf_suite.hardware import accelerator_busy, accelerators, describe_system
from mlperf_suite.results.comparability import differences, machine_of

NPUS: dict[str, Any] = {
    **{"platform": "NPUPlatform", "device_type": "npu", "variable": "ASCEND_RT_VISIBLE_DEVICES"},
    **{"names": ["Ascend910B3"] * 2, "memories": [64 * 2**30, None], "dtypes": ["float16"]},
    **{"communication": "hccl", "plugin": "ascend", "distribution": "vllm-ascend 0.9.1"},
}


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_plugins", "_build", "_devices"):
        monkeypatch.setattr(vllm_platform, name, cache(getattr(vllm_platform, name).__wrapped__))


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_plugins_devices_are_named_and_vllm_is_asked_elsewhere(plugin: None) -> None:
    """The whole way: entry point, vLLM's choice of platform, its answers."""
    before = set(sys.modules)
    (device,) = accelerators()
    assert (device.name, device.variable) == (DEVICE, "MADE_UP_VISIBLE_DEVICES")
    assert device.platform.startswith("made_up (vLLM's platform plugin), device type cpu")
    assert device.software.startswith("vllm-made-up 0.7; communication gloo; precisions bfloat16")
    assert not [m for m in set(sys.modules) - before if m.startswith(("vllm", "torch"))]
    (absent,) = gpu_counters(environment={}).absent
    assert (absent.kind, absent.why) == ("accelerator", "no counter for this device")
    assert accelerator_busy() is None


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (NPUS, NPUS["names"]),
        ({**NPUS, "names": [None, "x\x1b[2J"]}, ["npu of ascend (vLLM's platform plugin)", "x[2J"]),
        (None, ["unknown device of vLLM's platform plugin made_up"]),
        # A machine with a plugin whose devices are not there.
        ({**NPUS, "names": [], "memories": []}, []),
    ],
)
def test_what_a_plugin_runs_on_is_no_cpu(
    plugin: None, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None, names: list[str]
) -> None:
    monkeypatch.setattr(vllm_platform, "_ask", lambda: answer)
    system = describe_system.__wrapped__()
    assert system["gpus"] == names
    monkeypatch.setattr(vllm_platform, "_plugins", tuple)
    on_cpu = describe_system.__wrapped__()
    apart = differences(machine_of(on_cpu), machine_of(system), ["capacity"])
    facts = {"gpus", "gpu_count", "accelerator_platform"} if names else set()
    assert {fact.name for fact in apart} == facts


def test_vllm_is_asked_for_builds_whose_devices_no_library_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {"platform": "XPUPlatform", "device_type": "xpu", "plugin": "", "distribution": ""}
    answer = NPUS | own | {"names": [None], "memories": [None]}
    monkeypatch.setattr(vllm_platform, "version", lambda package: "0.32.0+xpu")
    monkeypatch.setattr(vllm_platform, "_ask", lambda: answer)
    assert describe_system.__wrapped__()["gpus"] == ["xpu of vLLM's XPUPlatform"]
