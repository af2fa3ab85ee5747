"""The space of a file and of a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from mlperf_suite.tuning.space import space_of

from mlperf_suite.engines.vllm_choices import Machine, choices_for

ARGUMENTS = {
    "max_num_seqs": int | None,
    "block_size": int | None,
    "kv_cache_dtype": Literal["auto", "fp8", "fp8_e5m2"],
    "dtype": Literal["auto", "float16", "bfloat16", "float32"],
    "quantization": str | None,
    "tensor_parallel_size": int,
    "data_parallel_size": int,
    "async_scheduling": bool | None,
}


def test_a_file_fixes_narrows_adds_and_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        "max_num_seqs = 8\nmax_num_batched_tokens = []\nblock_size = [32]\nFLAG = ['a']\n"
        "[[when]]\nonly = 'block_size > 0'\n"
    )
    expected = {"max_num_seqs": (8,), "block_size": (None, 32), "FLAG": (None, "a")}
    assert space_of(file) == expected
    assert space_of(file, own={}) == expected
    assert space_of(None, own={}) == {}


def test_a_cpu_computes_no_fp8_weights_and_splits_nothing() -> None:
    machine = Machine(0, frozenset(), has_fp8=False)
    choices = choices_for(machine, ARGUMENTS)
    assert choices.keys() == {"max_num_seqs", "block_size"}
    assert choices["block_size"] == (32, 64, 128)


@pytest.mark.parametrize(("gpus", "split"), [(1, None), (2, (1, 2)), (6, (1, 2, 4))])
def test_a_model_is_split_over_the_gpus_there_are(gpus: int, split: object) -> None:
    machine = Machine(gpus, frozenset({"bfloat16"}), has_fp8=True)
    choices = choices_for(machine, ARGUMENTS)
    assert choices.get("tensor_parallel_size") == split
    assert choices.get("data_parallel_size") == (split[1:] if split else None)
    assert choices["quantization"] == ("fp8",)


def test_values_that_this_vllm_does_not_know_are_not_tried() -> None:
    machine = Machine(1, frozenset({"bfloat16", "float16"}), has_fp8=True)
    assert choices_for(machine, {"dtype": Literal["auto", "bfloat16"]}) == {"dtype": ("bfloat16",)}


@pytest.mark.slow
def test_the_vllm_that_is_installed_has_these_arguments() -> None:
    from mlperf_suite.engines.vllm_choices import vllm_choices

    assert {"max_num_seqs", "max_num_batched_tokens", "block_size"} <= vllm_choices().keys()
