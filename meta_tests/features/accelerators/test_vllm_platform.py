"""What vLLM's platform says of its devices; the plugin that brings it is evidence/accelerators/."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evidence.accelerators.made_up_platform import DEVICE, install
from mlperf_suite import hardware
from mlperf_suite.energy import gpu_counters
from mlperf_suite.features.accelerators import vllm_platform
from mlperf_suite.hardware import accelerator_busy, accelerators, describe_system
from mlperf_suite.results.comparability import differences, machine_of

ANSWER = {
    "platform": "NPUPlatform",
    "device_type": "npu",
    "names": ["Ascend910B3", "Ascend910B3"],
    "memories": [64 * 2**30, None],
    "dtypes": ["float16", "bfloat16"],
    "communication": "hccl",
    "variable": "ASCEND_RT_VISIBLE_DEVICES",
    "plugin": "ascend",
    "distribution": "vllm-ascend 0.9.1",
}


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """Each test has plugins and answers of its own."""
    kept = (vllm_platform._plugins, vllm_platform._build, vllm_platform._devices, describe_system)
    for function in kept:
        function.cache_clear()
    yield
    for function in kept:
        function.cache_clear()


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform plugin of vLLM on sys.path."""
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_plugins_devices_are_named_and_vllm_is_asked_elsewhere(plugin: None) -> None:
    """The whole way: entry point, vLLM's choice of platform, its answers."""
    before = set(sys.modules)
    (device,) = accelerators()
    assert device.name == DEVICE
    assert device.variable == "MADE_UP_VISIBLE_DEVICES"
    assert device.platform.startswith("made_up (vLLM's platform plugin), device type cpu")
    assert device.software.startswith("vllm-made-up 0.7; communication gloo; precisions bfloat16")
    assert not {name for name in set(sys.modules) - before if name.startswith(("vllm", "torch"))}
    (absent,) = gpu_counters(environment={}).absent
    assert (absent.kind, absent.why) == ("accelerator", "no counter for this device")
    assert accelerator_busy() is None


def test_no_plugin_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collecting and --plan import no vLLM."""
    monkeypatch.setattr(vllm_platform, "_ask", lambda: pytest.fail("vLLM was asked"))
    assert accelerators() == ()


def system_with(answer: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(vllm_platform, "_ask", lambda: answer)
    vllm_platform._devices.cache_clear()
    describe_system.cache_clear()
    return describe_system()


@pytest.mark.parametrize(
    ("answer", "names", "apart"),
    [
        (ANSWER, ["Ascend910B3"] * 2, {"gpus", "gpu_count", "accelerator_platform"}),
        (
            {**ANSWER, "names": [None, "x\x1b[2Jy"]},
            ["npu of ascend (vLLM's platform plugin)", "x[2Jy"],
            None,
        ),
        # A machine with a plugin whose devices are not there.
        ({**ANSWER, "names": [], "memories": []}, [], set()),
        (None, ["unknown device of vLLM's platform plugin made_up"], None),
    ],
)
def test_what_a_plugin_runs_on_is_no_cpu(
    plugin: None,
    monkeypatch: pytest.MonkeyPatch,
    answer: dict[str, Any] | None,
    names: list[str],
    apart: set[str] | None,
) -> None:
    with monkeypatch.context() as without:
        without.setattr(hardware, "accelerators", lambda: ())
        on_cpu = describe_system()
    system = system_with(answer, monkeypatch)
    assert system["gpus"] == names
    found = {
        fact.name for fact in differences(machine_of(on_cpu), machine_of(system), ["capacity"])
    }
    assert found == apart if apart is not None else found >= {"gpus", "gpu_count"}


def test_of_a_build_for_other_devices_vllm_is_asked_where_no_library_lists_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm_platform, "version", lambda package: "0.32.0+xpu")
    own = {
        **ANSWER,
        "platform": "XPUPlatform",
        "device_type": "xpu",
        "plugin": "",
        "distribution": "",
    }
    system = system_with({**own, "names": [None], "memories": [None]}, monkeypatch)
    assert system["gpus"] == ["xpu of vLLM's XPUPlatform"]
    assert system["accelerator_platform"] == "vLLM's XPUPlatform, device type xpu"
