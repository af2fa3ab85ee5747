"""Each sibling of a model of pictures or sound: its files are not taken for the model's own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from evidence.model_identity.siblings import Sibling, check_sibling, untried
from mlperf_suite.features.multimodal import FEATURE

SIBLINGS: list[Sibling] = [
    ("whisper", "openai/whisper-large-v2", {"num_mel_bins": 80, "vocab_size": 51865}),
    ("whisper", "openai/whisper-large-v3-turbo", {"decoder_layers": 4}),
    (
        "qwen3-vl-235b-a22b",
        "Qwen/Qwen3-VL-30B-A3B-Instruct",
        {"text_config": {"hidden_size": 2048, "num_hidden_layers": 48}},
    ),
]


@pytest.mark.parametrize("sibling", SIBLINGS, ids=[name for _, name, _ in SIBLINGS])
def test_a_sibling_is_not_the_benchmarks_model(tmp_path: Path, sibling: Sibling) -> None:
    check_sibling(tmp_path, sibling)


def test_each_sibling_that_a_fact_tells_is_among_those_tried() -> None:
    own = (row for module in FEATURE.benchmarks for row in import_module(module).BENCHMARKS)
    assert untried(own, SIBLINGS) == set()
