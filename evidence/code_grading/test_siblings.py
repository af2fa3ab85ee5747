"""Each sibling of a model whose answers are graded: its files are not taken for the model's own."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from evidence.model_identity.siblings import Sibling, check_sibling, untried
from mlperf_suite.benchmarks.model_identity import TEMPLATE
from mlperf_suite.features.code_grading import FEATURE

V3 = "<User>{{ content }}<Assistant>"
V3_1 = "{% if thinking %}<think>{% else %}</think>{% endif %}"
SIBLINGS: list[Sibling] = [
    ("mixtral-8x7b", "NousResearch/Nous-Hermes-2-Mixtral-8x7B-DPO", {"vocab_size": 32002}),
    ("deepseek-r1", "deepseek-ai/DeepSeek-V3", {TEMPLATE: V3}),
    ("deepseek-r1", "deepseek-ai/DeepSeek-V3-0324", {TEMPLATE: V3}),
    ("deepseek-r1", "deepseek-ai/DeepSeek-V3.1", {TEMPLATE: V3_1}),
    (
        "deepseek-r1",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
        {"model_type": "llama", "hidden_size": 8192},
    ),
    ("gpt-oss-120b", "openai/gpt-oss-20b", {"num_hidden_layers": 24, "num_local_experts": 32}),
    ("mixtral-8x7b", "one expert for each token", {"num_experts_per_tok": 1}),
    ("gpt-oss-120b", "two experts for each token", {"num_experts_per_tok": 2}),
]


@pytest.mark.parametrize("sibling", SIBLINGS, ids=[name for _, name, _ in SIBLINGS])
def test_a_sibling_is_not_the_benchmarks_model(tmp_path: Path, sibling: Sibling) -> None:
    check_sibling(tmp_path, sibling)


def test_each_sibling_that_a_fact_tells_is_among_those_tried() -> None:
    own = (row for module in FEATURE.benchmarks for row in import_module(module).BENCHMARKS)
    assert untried(own, SIBLINGS) == set()
