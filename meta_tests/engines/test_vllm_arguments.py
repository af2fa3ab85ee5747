"""What vLLM is asked for, and what is said where it cannot load. No model is loaded here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.engines import vllm_engine
from mlperf_suite.engines.vllm_engine import VllmConfig, choose_arguments
from mlperf_suite.errors import EngineError

OWN_CONTEXT = 8192
"""The longest sequence of the embedded model; it has 9 attention heads and 3 KV heads."""


@pytest.fixture
def config() -> VllmConfig:
    return VllmConfig(str(embedded_model_dir()))


@pytest.fixture
def six_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "_runs_on_cpu", lambda: False)
    monkeypatch.setattr(vllm_engine, "_visible_gpus", lambda: 6)


@pytest.mark.parametrize(
    ("asked", "needed", "extra", "taken"),
    [
        (None, 4096, {}, 4096),
        (None, 100_000, {}, OWN_CONTEXT),
        (640, 4096, {}, 640),
        (None, 4096, {"max_model_len": 700}, 700),
        (None, None, {}, None),
    ],
)
def test_the_context_is_what_is_needed_or_the_models_own(
    config: VllmConfig,
    asked: int | None,
    needed: int | None,
    extra: dict[str, object],
    taken: int | None,
) -> None:
    config = replace(config, max_model_len=asked, context_needed=needed, extra=extra)
    assert choose_arguments(config).arguments.max_model_len == taken


@pytest.mark.parametrize(
    ("role", "extra", "cached"),
    [
        ("runs", {}, False),
        ("scoring", {}, True),
        ("runs", {"enable_prefix_caching": True}, True),
    ],
)
def test_only_scoring_and_the_user_have_a_prefix_cache(
    config: VllmConfig, role: str, extra: dict[str, object], cached: bool
) -> None:
    config = replace(config, role=role, extra=extra)  # type: ignore[arg-type]
    assert choose_arguments(config).arguments.enable_prefix_caching is cached


@pytest.mark.usefixtures("six_gpus")
def test_auto_splits_over_the_gpus_that_the_model_can_use(config: VllmConfig) -> None:
    chosen = choose_arguments(replace(config, tensor_parallel_size=None))
    assert chosen.arguments.tensor_parallel_size == 3
    assert chosen.tensor_parallel.why.endswith("idle GPUs: 3 (3, 4, 5)")
    assert chosen.gpus == 6


@pytest.mark.usefixtures("six_gpus")
@pytest.mark.parametrize(("extra", "taken"), [({"pipeline_parallel_size": 3}, 1), ({}, 3)])
def test_other_ways_to_split_leave_fewer_gpus(
    config: VllmConfig, extra: dict[str, object], taken: int
) -> None:
    chosen = choose_arguments(replace(config, tensor_parallel_size=None, extra=extra))
    assert chosen.tensor_parallel.value == taken


@pytest.mark.usefixtures("six_gpus")
def test_an_engine_argument_is_what_was_asked(config: VllmConfig) -> None:
    extra: dict[str, object] = {"tensor_parallel_size": 1, "dtype": "float16"}
    chosen = choose_arguments(replace(config, tensor_parallel_size=None, extra=extra))
    assert chosen.arguments.tensor_parallel_size == 1
    assert chosen.tensor_parallel.why == "as asked; idle GPUs: 5 (1, 2, 3, 4, 5)"
    assert chosen.arguments.dtype == "float16"
    assert chosen.precision.why == "as asked with --engine-arg"


def test_a_gpu_build_without_a_gpu_says_what_to_do(
    config: VllmConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_engine, "_runs_on_cpu", lambda: False)
    monkeypatch.setattr("torch.accelerator.device_count", lambda: 0)
    with pytest.raises(EngineError, match=r"^no usable GPU: .*make setup BUILD=cpu") as caught:
        choose_arguments(config)
    assert "\n" not in str(caught.value)


def test_an_argument_that_vllm_does_not_have_is_named(config: VllmConfig) -> None:
    with pytest.raises(EngineError, match=r"^--engine-arg speed: vLLM's engine has no such"):
        choose_arguments(replace(config, extra={"speed": 11}))


_LOG = """\
(EngineCore pid=7) ERROR 11-21 [core.py:9] EngineCore failed to start.
(EngineCore pid=7) ERROR 11-21 [core.py:9] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-21 [core.py:9] ValueError: KV cache of 16 GiB needed, 3 GiB are there.
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_the_logs_last_error_is_said_where_vllm_only_points_to_it(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(_LOG)
    points = RuntimeError("Engine core initialization failed. See root cause above.")
    found = vllm_engine._root_cause(points, log)
    assert found == "ValueError: KV cache of 16 GiB needed, 3 GiB are there."
    assert vllm_engine._root_cause(ValueError("no such model"), log) == "no such model"
    assert "root cause" in vllm_engine._root_cause(points, tmp_path / "none")
    assert "root cause" in vllm_engine._root_cause(points, None)
