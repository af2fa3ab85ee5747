"""The files of a benchmark's model, made up from its marks."""

import json
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import Benchmark, Workload
from mlperf_suite.benchmarks.model_identity import EOS, TEMPLATE

LLAMA_TURN = "<|start_header_id|>user<|end_header_id|>{{ content }}<|eot_id|>"
TEMPLATES = {
    "llama2-70b-99": "[INST] <<SYS>>{{ system }}<</SYS>> {{ content }} [/INST]",
    "llama2-70b-99.9": "[INST] <<SYS>>{{ system }}<</SYS>> {{ content }} [/INST]",
    "mixtral-8x7b": "{{ '[INST] ' + content + ' [/INST]' }}",
    "deepseek-r1": "{% set content = content.split('</think>')[-1] %}\n<Assistant><think>\n",
}


def workload_of(row: Benchmark) -> Workload:
    assert row.workload is not None
    return row.workload


def model_folder(folder: Path, row: Benchmark, changes: dict[str, Any] | None = None) -> Path:
    """The files of a benchmark's model, with the changes that make them a sibling's."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = [int(token_id) for token_id in row.eos_token_ids]
    facts = {
        **workload_of(row).model_identity.shape,
        EOS: ids,
        TEMPLATE: TEMPLATES.get(row.id, LLAMA_TURN),
    }
    facts |= changes or {}
    template = facts.pop(TEMPLATE)
    (folder / "config.json").write_text(json.dumps(facts))
    (folder / "generation_config.json").write_text(json.dumps({EOS: facts[EOS]}))
    entries = {} if template is None else {TEMPLATE: template}
    (folder / "tokenizer_config.json").write_text(json.dumps(entries))
    return folder
