"""What the tests of models' siblings share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from meta_tests.benchmarks.made_model_folder import model_folder, workload_of
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.benchmarks.model_identity import model_facts

Sibling = tuple[str, str, dict[str, Any]]
"""A benchmark, another model's name, and how its configuration differs from the benchmark's."""
_WITHOUT_TEMPLATE = {"meta-llama/Llama-2-70b-hf", "mistralai/Mixtral-8x7B-v0.1"}
"""A base model without a chat template has the files of a copy that lost it."""


def _facts_in(folder: Path) -> dict[str, Any]:
    def read(name: str) -> str | None:
        return (folder / name).read_text() if (folder / name).is_file() else None

    facts = model_facts(read)
    assert facts is not None
    return facts


def check_sibling(folder: Path, sibling: Sibling) -> None:
    """Assert that neither its files nor a name says that it is the benchmark's model."""
    id_, _, changes = sibling
    row = BENCHMARKS[id_]
    facts = _facts_in(model_folder(folder, row, changes))
    assert workload_of(row).model_identity.differences(facts)
    assert not workload_of(row).is_model("/models/other", facts)
    # Nor by a name that says so.
    assert not workload_of(row).is_model(workload_of(row).model, facts)


def untried(benchmarks: Iterable[Benchmark], siblings: Iterable[Sibling]) -> set[str]:
    """The siblings of these benchmarks that a fact tells apart, and that are not among those."""
    rows = (row for row in benchmarks if row.workload and row.workload.model_identity.shape)
    told = {
        sibling.name
        for row in rows
        for sibling in workload_of(row).model_identity.siblings
        if sibling.distinguished_by
    }
    return told - _WITHOUT_TEMPLATE - {name for _, name, _ in siblings}
