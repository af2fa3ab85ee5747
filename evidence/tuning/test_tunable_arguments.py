"""The arguments of the vLLM that is installed, which a tuning may search."""

from __future__ import annotations

from mlperf_suite.features.tuning.vllm_choices import vllm_choices


def test_the_vllm_that_is_installed_has_these_arguments() -> None:
    assert {"max_num_seqs", "max_num_batched_tokens", "block_size"} <= vllm_choices().keys()
