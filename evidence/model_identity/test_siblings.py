"""Each sibling of a benchmark's model: its files are not taken for the model's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meta_tests.benchmarks.made_model_folder import model_folder, workload_of
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.model_identity import EOS, TEMPLATE, model_facts

ROWS = [row for row in BENCHMARKS.values() if row.workload and row.workload.model_identity.shape]
V3 = "<User>{{ content }}<Assistant>"
V3_1 = "{% if thinking %}<think>{% else %}</think>{% endif %}"
SIBLINGS: list[tuple[str, str, dict[str, Any]]] = [
    ("llama3.1-8b", "meta-llama/Llama-3.1-8B", {EOS: 128001, TEMPLATE: None}),
    ("llama3.1-8b", "meta-llama/Meta-Llama-3-8B", {"rope_scaling": None, EOS: 128001}),
    ("llama3.1-8b", "meta-llama/Meta-Llama-3-8B-Instruct", {"rope_scaling": None, EOS: 128009}),
    ("llama3.1-8b", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", {EOS: 128001, TEMPLATE: V3}),
    ("llama3.1-8b", "NousResearch/Hermes-3-Llama-3.1-8B", {EOS: 128040}),
    ("llama3.1-405b", "meta-llama/Llama-3.1-405B", {EOS: 128001}),
    ("llama3.1-405b", "NousResearch/Hermes-3-Llama-3.1-405B", {EOS: 128039}),
    ("llama2-70b-99", "codellama/CodeLlama-70b-Instruct-hf", {"vocab_size": 32016}),
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
    ("whisper", "openai/whisper-large-v2", {"num_mel_bins": 80, "vocab_size": 51865}),
    ("whisper", "openai/whisper-large-v3-turbo", {"decoder_layers": 4}),
    (
        "qwen3-vl-235b-a22b",
        "Qwen/Qwen3-VL-30B-A3B-Instruct",
        {"text_config": {"hidden_size": 2048, "num_hidden_layers": 48}},
    ),
    # What makes the model itself faster.
    ("mixtral-8x7b", "one expert for each token", {"num_experts_per_tok": 1}),
    ("gpt-oss-120b", "two experts for each token", {"num_experts_per_tok": 2}),
    ("llama3.1-8b", "half of the layers", {"num_hidden_layers": 16}),
]


def facts_in(folder: Path) -> dict[str, Any]:
    def read(name: str) -> str | None:
        return (folder / name).read_text() if (folder / name).is_file() else None

    facts = model_facts(read)
    assert facts is not None
    return facts


@pytest.mark.parametrize(("id_", "name", "changes"), SIBLINGS, ids=[s[1] for s in SIBLINGS])
def test_a_sibling_is_not_the_benchmarks_model(
    tmp_path: Path, id_: str, name: str, changes: dict[str, Any]
) -> None:
    row = BENCHMARKS[id_]
    facts = facts_in(model_folder(tmp_path, row, changes))
    assert workload_of(row).model_identity.differences(facts)
    assert not workload_of(row).is_model("/models/other", facts)
    # Nor by a name that says so.
    assert not workload_of(row).is_model(workload_of(row).model, facts)


def test_each_sibling_that_a_fact_tells_is_among_those_tried() -> None:
    told = {
        s.name
        for row in ROWS
        for s in workload_of(row).model_identity.siblings
        if s.distinguished_by
    }
    # A base model without a chat template has the files of a copy that lost it.
    without_template = {"meta-llama/Llama-2-70b-hf", "mistralai/Mixtral-8x7B-v0.1"}
    assert told - without_template <= {name for _, name, _ in SIBLINGS}
