"""The lengths that are just enough."""

from __future__ import annotations

from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario
from meta_tests.tampering.rule_breaks import without_agreement
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B_EDGE
from mlperf_suite.rules import judge


@pytest.mark.parametrize(("queries", "failures"), [(1024, []), (1023, ["min_queries"])])
def test_single_stream_without_early_stopping_needs_1024_queries(
    queries: Any, failures: Any
) -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    run.entries = {k: v for k, v in run.entries.items() if not k.startswith("early_stopping")}
    run.entries["result_query_count"] = queries
    assert list(without_agreement(judge(run.facts()))) == failures


JUST_ENOUGH = {
    "result_query_count": (64, ("Server", "Interactive", "SingleStream")),
    "effective_min_duration_ms": (600_000, ("Server", "Offline")),
    "effective_samples_per_query": (13_368, ("Offline",)),
    "effective_performance_sample_count": (13_368, ("Server", "Offline")),
}


@pytest.mark.parametrize("key", JUST_ENOUGH)
def test_just_enough_is_enough(key: Any) -> None:
    value, scenarios = JUST_ENOUGH[key]
    for where in every_scenario():
        if where[0].samples == 13_368 and where[1].name in scenarios:
            run = MadeRun(*where, "performance")
            run.entries[key] = value
            assert without_agreement(judge(run.facts())) == {}
