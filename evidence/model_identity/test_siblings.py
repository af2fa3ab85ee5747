"""Each sibling of a benchmark's model: its files are not taken for the model's own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from evidence.model_identity.siblings import Sibling, check_sibling, untried
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.model_identity import EOS, TEMPLATE
from mlperf_suite.feature import features

V3 = "<User>{{ content }}<Assistant>"
SIBLINGS: list[Sibling] = [
    ("llama3.1-8b", "meta-llama/Llama-3.1-8B", {EOS: 128001, TEMPLATE: None}),
    ("llama3.1-8b", "meta-llama/Meta-Llama-3-8B", {"rope_scaling": None, EOS: 128001}),
    ("llama3.1-8b", "meta-llama/Meta-Llama-3-8B-Instruct", {"rope_scaling": None, EOS: 128009}),
    ("llama3.1-8b", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", {EOS: 128001, TEMPLATE: V3}),
    ("llama3.1-8b", "NousResearch/Hermes-3-Llama-3.1-8B", {EOS: 128040}),
    ("llama3.1-405b", "meta-llama/Llama-3.1-405B", {EOS: 128001}),
    ("llama3.1-405b", "NousResearch/Hermes-3-Llama-3.1-405B", {EOS: 128039}),
    ("llama2-70b-99", "codellama/CodeLlama-70b-Instruct-hf", {"vocab_size": 32016}),
    ("llama3.1-8b", "half of the layers", {"num_hidden_layers": 16}),
]


@pytest.mark.parametrize("sibling", SIBLINGS, ids=[name for _, name, _ in SIBLINGS])
def test_a_sibling_is_not_the_benchmarks_model(tmp_path: Path, sibling: Sibling) -> None:
    check_sibling(tmp_path, sibling)


def test_each_sibling_that_a_fact_tells_is_among_those_tried() -> None:
    places = (module for feature in features() for module in feature.benchmarks)
    of_features = {row.id for place in places for row in import_module(place).BENCHMARKS}
    core = (row for id_, row in BENCHMARKS.items() if id_ not in of_features)
    assert untried(core, SIBLINGS) == set()
