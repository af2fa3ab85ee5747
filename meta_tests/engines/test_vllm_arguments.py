"""What vLLM is asked for, and what is said where it cannot load. No model is loaded here."""

import os
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import OWN_HEAD
from mlperf_suite.engines import vllm_arguments, vllm_environment
from mlperf_suite.engines.protocol import DATA_PARALLEL, MODEL_CHANGES, SPECULATIVE
from mlperf_suite.engines.vllm_arguments import (
    VllmConfig,
    choose_arguments,
    choose_tensor_parallel,
    engine_settings,
    settings_of,
)
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.errors import EngineError
from mlperf_suite.hardware import Accelerator

SOCKETS = "VLLM_RPC_BASE_PATH"
OWN_CONTEXT = 8192
"""The longest sequence of the embedded model; it has 9 attention heads and 3 KV heads."""


@pytest.fixture
def config() -> VllmConfig:
    return VllmConfig(str(embedded_model_dir()))


@pytest.fixture
def six_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_arguments, "runs_on_cpu", lambda: False)
    monkeypatch.setattr(vllm_arguments, "visible_gpus", lambda: 6)


@pytest.mark.parametrize(
    ("changes", "expected_value"),
    [
        ({"context_needed": 4096}, 4096),
        ({"context_needed": 100_000}, OWN_CONTEXT),
        ({"max_model_len": 640, "context_needed": 4096}, 640),
        ({"context_needed": 4096, "extra": {"max_model_len": 700}}, 700),
        ({}, None),
    ],
)
def test_the_context_is_what_is_needed_or_the_models_own(
    config: VllmConfig, changes: dict[str, Any], expected_value: int | None
) -> None:
    assert choose_arguments(replace(config, **changes)).arguments.max_model_len == expected_value


def test_only_scoring_and_the_user_have_a_prefix_cache(config: VllmConfig) -> None:
    asked: dict[str, Any] = {"extra": {"enable_prefix_caching": True}}
    for changes, cached in (({}, False), ({"role": "scoring"}, True), (asked, True)):
        arguments = choose_arguments(replace(config, **changes)).arguments
        assert arguments.enable_prefix_caching is cached


@pytest.mark.usefixtures("six_gpus")
@pytest.mark.parametrize(
    ("extra", "size", "idle"),
    [
        ({}, 3, "idle accelerators: 3 (3, 4, 5)"),
        ({"pipeline_parallel_size": 3}, 1, "idle accelerators: 3 (3, 4, 5)"),
        ({"data_parallel_size": 2}, 3, "auto: 3 accelerators for each of 2 sets"),
        (
            {"data_parallel_size": 4},
            1,
            "one accelerator for each of 4 sets; idle accelerators: 2 (4, 5)",
        ),
        ({"data_parallel_size": 12}, 1, "auto: one accelerator for each of 12 sets"),
        (
            {"data_parallel_size": 2, "tensor_parallel_size": 1},
            1,
            "idle accelerators: 4 (2, 3, 4, 5)",
        ),
    ],
)
def test_auto_splits_over_the_gpus_that_the_model_can_use_and_other_ways_leave(
    config: VllmConfig, extra: dict[str, object], size: int, idle: str
) -> None:
    choice = choose_arguments(replace(config, tensor_parallel_size=None, extra=extra))
    assert choice.arguments.tensor_parallel_size == choice.tensor_parallel.value == size
    assert choice.tensor_parallel.why.endswith(idle)
    assert choice.gpus == 6


def test_an_engine_argument_is_what_was_asked(config: VllmConfig) -> None:
    choice = choose_arguments(replace(config, extra={"dtype": "float16"}))
    assert choice.arguments.dtype == "float16"
    assert choice.precision.why == "as asked with --engine-arg"


def test_a_gpu_build_without_a_gpu_says_what_to_do(
    config: VllmConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_arguments, "runs_on_cpu", lambda: False)
    monkeypatch.setattr(vllm_environment, "accelerators", lambda: ())
    monkeypatch.setattr("torch.accelerator.device_count", lambda: 0)
    with pytest.raises(EngineError, match=r"^no usable GPU: .*BUILD=cpu make setup") as caught:
        choose_arguments(config)
    assert "neither the driver (NVML, libnvidia-ml.so.1) nor " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_gpu_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    a30 = Accelerator("NVIDIA A30", "GPU-1", "550.54.15")
    monkeypatch.setattr(vllm_environment, "accelerators", lambda: (a30,))
    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    line = vllm_environment.no_usable_gpu()
    assert "lists NVIDIA A30 (driver 550.54.15) and CUDA 13.0 can use none" in line
    assert "CUDA_VISIBLE_DEVICES=-1" in line


@pytest.mark.parametrize("compiler", ["/usr/bin/g++", None])
def test_a_vllm_that_is_not_there_is_said_in_a_line(
    config: VllmConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiler: str | None
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: compiler)
    for name in [module for module in sys.modules if module.partition(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(EngineError, match=r"^vLLM cannot be imported \(.*`make setup`$"):
        VllmEngine.load(replace(config, log_file=tmp_path / "engine.log"))


# vLLM's CPU worker asks lscpu for the CPUs.


@pytest.mark.parametrize(
    ("text", "cpu_build", "helped"),
    [
        ("echo lscpu: no /sys >&2; exit 1", True, True),
        (None, True, True),
        ("exit 0", True, False),
        ("exit 1", False, False),
    ],
    ids=["fails", "is not there", "tells", "GPU build"],
)
def test_the_worker_learns_of_the_cpus_where_lscpu_cannot_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, cpu_build: bool, helped: bool
) -> None:
    """As on a system without /sys."""
    from vllm.utils.cpu_resource_utils import get_allowed_cpu_list

    monkeypatch.setattr(vllm_environment, "runs_on_cpu", lambda: cpu_build)
    if text is not None:
        (tmp_path / "lscpu").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "lscpu").chmod(0o755)
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    with vllm_environment.cpu_list():
        assert (os.environ["PATH"] != str(tmp_path)) is helped
        if helped:
            result = get_allowed_cpu_list()
            assert [module.id for module in result] == sorted(os.sched_getaffinity(0))
            assert {module.numa_node for module in result} == {0}
    assert os.environ["PATH"] == str(tmp_path)


def test_vllm_says_how_it_decodes_speculatively(config: VllmConfig) -> None:
    assert settings_of(config)[SPECULATIVE] is None
    ngram = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 2}
    value = settings_of(replace(config, extra={"speculative_config": ngram}))[SPECULATIVE]
    assert isinstance(value, dict)
    assert (value["method"], value["steps"], value["topk"]) == ("ngram", 4, 1)


@pytest.mark.parametrize("quantization", [None, "fp8"])
def test_a_quantization_is_among_vllms_settings(quantization: str | None) -> None:
    """Two engines that differ in it alone are two systems."""
    config = SimpleNamespace(
        model_config=SimpleNamespace(
            model="m", dtype="bfloat16", enforce_eager=True, quantization=quantization
        ),
        cache_config=SimpleNamespace(enable_prefix_caching=False, cache_dtype="auto"),
        scheduler_config=SimpleNamespace(max_num_seqs=1, max_num_batched_tokens=1),
    )
    assert engine_settings(config).get("quantization") == quantization


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({}, {}),
        (
            {"draft_model_config": SimpleNamespace(model="m", quantization="fp8")},
            {"head": OWN_HEAD, "quantization": "fp8"},
        ),
        ({"speculative_token_tree": "[(0,), (0, 0), (1,)]"}, {"topk": "a tree"}),
        ({"speculative_token_tree": "[(0,), (0, 0)]"}, {}),
        ({"parallel_drafting": True}, {"method": "eagle3, in parallel"}),
        ({"num_speculative_tokens_per_batch_size": [(1, 8, 3)]}, {"steps": "by batch size"}),
        ({"rejection_sample_method": "synthetic"}, {"acceptance": "synthetic acceptance"}),
    ],
)
def test_what_changes_the_speculation_is_among_vllms_settings(
    changes: dict[str, object], setting: dict[str, object]
) -> None:
    draft = SimpleNamespace(model="org/head", quantization=None)
    base = {"method": "eagle3", "num_speculative_tokens": 3, "draft_model_config": draft}
    speculation = SimpleNamespace(**base | changes)
    config = SimpleNamespace(
        model_config=SimpleNamespace(model="m", dtype="bfloat16", enforce_eager=True),
        cache_config=SimpleNamespace(enable_prefix_caching=False, cache_dtype="auto"),
        scheduler_config=SimpleNamespace(max_num_seqs=1, max_num_batched_tokens=1),
        speculative_config=speculation,
    )
    assert engine_settings(config)[SPECULATIVE] == {
        **{"method": "eagle3", "steps": 3, "topk": 1, "head": "org/head", "quantization": "none"},
        **setting,
    }


@pytest.mark.parametrize(
    ("extra", "changes", "data_parallel"),
    [
        ({}, None, None),
        ({"load_format": "dummy", "data_parallel_size": 2}, "load_format=dummy", 2),
        ({"hf_overrides": {"num_hidden_layers": 2}}, "hf_overrides", None),
    ],
)
def test_another_model_of_the_files_and_data_parallel_engines_are_told(
    config: VllmConfig, extra: dict[str, object], changes: str | None, data_parallel: int | None
) -> None:
    settings = settings_of(replace(config, extra=extra))
    assert settings.get(MODEL_CHANGES) == changes
    assert settings.get(DATA_PARALLEL) == data_parallel


def test_an_argument_that_vllm_does_not_have_is_named(config: VllmConfig) -> None:
    with pytest.raises(EngineError, match=r"^--engine-arg speed: vLLM's engine has no such"):
        choose_arguments(replace(config, extra={"speed": 11}))


_LOG = """\
(EngineCore pid=7) ERROR 11-21 [core.py:9] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-21 [core.py:9] ValueError: KV cache of 16 GiB needed, 3 GiB are there.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_the_logs_last_error_is_said_where_vllm_only_points_to_it(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(_LOG)
    points = RuntimeError("Engine core initialization failed. See root cause above.")
    result = vllm_environment.root_cause(points, log)
    assert result == "ValueError: KV cache of 16 GiB needed, 3 GiB are there."
    assert vllm_environment.root_cause(ValueError("no such model"), log) == "no such model"
    assert "root cause" in vllm_environment.root_cause(points, tmp_path / "none")
    assert "root cause" in vllm_environment.root_cause(points, None)
    for words in ("Device string must not be empty", "Failed to infer device type, please set the"):
        log.write_text(f"RuntimeError: {words}\n")
        assert str(vllm_environment.last_error(log)).startswith("no usable GPU: ")
        line = vllm_environment.root_cause(RuntimeError(words), None)
        assert line.startswith("no usable GPU: ")


_DIED = """\
(EngineCore pid=7) ERROR 11-21 [core.py:9] Traceback (most recent call last):
\x1b[31m(EngineCore pid=7)\x1b[0;0m torch.OutOfMemoryError: \x1b[1mCUDA out of memory.\x1b[0m
ERROR 11-21 [async_llm.py:700] EngineDeadError: EngineCore encountered an issue. See stack trace.
"""


def test_an_engine_that_died_says_of_what(config: VllmConfig, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    points = RuntimeError("EngineCore encountered an issue. See stack trace for the root cause.")
    with closing(VllmEngine(replace(config, log_file=log))) as engine:
        log.write_text(_DIED)
        line = str(engine._explained(points))
        assert "died while answering: torch.OutOfMemoryError: CUDA out of memory. (see" in line
        log.write_text("")
        assert "died while answering: EngineCore encountered" in str(engine._explained(points))


# How a model is split over GPUs


@pytest.mark.parametrize(
    ("gpus", "value", "why"),
    [
        (0, 1, "auto: no accelerator"),
        (1, 1, "auto: the only accelerator"),
        (8, 8, "auto: all 8 accelerators"),
        # Two GPUs have a copy of each KV head.
        (16, 16, "auto: all 16 accelerators"),
        (6, 4, "8 KV heads cannot be split over 5 or 6; idle accelerators: 2 (4, 5)"),
    ],
)
def test_the_reason_is_said(gpus: int, value: int, why: str) -> None:
    choice = choose_tensor_parallel(gpus, 32, 8, request=None)
    assert choice.value == value and choice.why.endswith(why)
    asked = choose_tensor_parallel(gpus, 32, 8, request=2)
    assert asked.value == 2 and asked.why.startswith("as asked")


@pytest.mark.parametrize(("length", "fits"), [(70, True), (71, False)])
def test_a_folder_whose_sockets_would_have_too_long_a_path_is_left(
    length: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SOCKETS, raising=False)
    folder = "/" + (length - 1) * "a"
    with vllm_environment.vllm_environment("a/model", sockets=folder):
        assert (os.environ.get(SOCKETS) == folder) is fits
    assert SOCKETS not in os.environ


def test_the_users_own_folder_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKETS, "/mine")
    with vllm_environment.vllm_environment("a/model", sockets="/sockets"):
        assert os.environ[SOCKETS] == "/mine"
    assert os.environ[SOCKETS] == "/mine"
