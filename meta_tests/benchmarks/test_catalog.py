"""The benchmarks that the suite knows, and what each says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS, default_benchmarks, find_benchmark, runnable
from mlperf_suite.benchmarks.definition import CATEGORIES, SCENARIOS
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.loadgen.load_plan import AUDIT_MODES


def test_every_benchmark_is_known_once_by_its_id() -> None:
    assert len({b.id for b in BENCHMARKS.values()}) == len(BENCHMARKS) == 14
    assert BENCHMARKS[LLAMA2_70B_99.id] is LLAMA2_70B_99
    assert default_benchmarks() == [LLAMA3_1_8B, LLAMA3_1_8B_EDGE]
    assert runnable() == list(BENCHMARKS.values())


def test_a_benchmark_is_found_by_any_of_its_names() -> None:
    for benchmark in BENCHMARKS.values():
        for name in (benchmark.id, *benchmark.aliases):
            assert find_benchmark(name) is (benchmark if benchmark.in_trees else None)
    assert find_benchmark("resnet50") is None


@pytest.mark.parametrize("row", BENCHMARKS.values(), ids=lambda row: row.id)
def test_what_a_benchmark_says_fits_together(row: Any) -> None:
    names = [s.name for s in row.scenarios]
    assert len(set(names)) == len(names) and set(names) <= set(SCENARIOS)
    every = {s.name for s in row.every_scenario}
    assert {name for group in row.required for name in group} <= every
    assert all(row.scenario(name).name == name for name in names)
    with pytest.raises(KeyError, match="has no scenario MultiStream"):
        row.scenario("MultiStream")
    assert row.category in CATEGORIES and set(row.rounds) <= set(ROUNDS)
    assert row.reference.answers == row.samples_of("accuracy")
    assert {audit.mode for audit in row.audits} <= set(AUDIT_MODES)
    assert len(set(row.metrics)) == len(row.metrics) > 0
    for workload in filter(None, (row.workload, row.smoke)):
        assert [score.name for score in workload.reference.scores] == list(row.metrics)
    assert row.workload is None or row.workload.reference is row.reference
