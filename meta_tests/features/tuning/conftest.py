"""Tests of the search use a small space in the place of the machine's, which imports vLLM."""

import pytest
from pytest import MonkeyPatch

from mlperf_suite.features.tuning import space


@pytest.fixture(autouse=True)
def small_space(monkeypatch: MonkeyPatch) -> None:
    choices = {"max_num_seqs": (None, 16, 32), "max_num_batched_tokens": (None, 2048, 4096)}
    monkeypatch.setattr(space, "machine_space", lambda gpus=None: choices)
    names = frozenset({*choices, "block_size", "enable_chunked_prefill"})
    monkeypatch.setattr(space, "engine_arguments", lambda: names)
