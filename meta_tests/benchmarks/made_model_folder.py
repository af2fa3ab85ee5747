"""The files of a benchmark's model, made up from its marks."""

import json
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import Benchmark, Workload
from mlperf_suite.benchmarks.model_identity import EOS, TEMPLATE

EVERY_MARK = "[INST] <<SYS>>{{ system }}<</SYS>> {{ content.split('</think>')[-1] }}\n[/INST]"
"""A chat template that any of the benchmarks' models may have."""


def workload_of(row: Benchmark) -> Workload:
    assert row.workload is not None
    return row.workload


def model_folder(folder: Path, row: Benchmark, changes: dict[str, Any] | None = None) -> Path:
    """The files of a benchmark's model, with the changes that make them a sibling's."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = [int(token_id) for token_id in row.eos_token_ids]
    facts = {**workload_of(row).model_identity.shape, EOS: ids, TEMPLATE: EVERY_MARK}
    facts |= changes or {}
    template = facts.pop(TEMPLATE)
    (folder / "config.json").write_text(json.dumps(facts))
    (folder / "generation_config.json").write_text(json.dumps({EOS: facts[EOS]}))
    entries = {} if template is None else {TEMPLATE: template}
    (folder / "tokenizer_config.json").write_text(json.dumps(entries))
    return folder
