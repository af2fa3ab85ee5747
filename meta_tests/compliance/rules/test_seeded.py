"""Rules of what the seeds determine, where a rounded rate leaves several schedules."""

from __future__ import annotations

import pytest

from meta_tests.made_runs import MadeRun
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.compliance.rules import judge, seeded
from mlperf_suite.loadgen.schedule import Schedule


@pytest.mark.parametrize(
    ("queries", "samples", "seconds", "status"),
    [
        (1000, 1, 600, "passed"),
        (1002, 1, 600, "passed"),
        (1001, 1, 601, "passed"),
        (1001, 7, 600, "failed"),
        (1001, 0, 600, "failed"),
        (999, 1, 600, "failed"),
        (1003, 1, 600, "failed"),
        (1001, 1, 603, "failed"),
    ],
)
def test_each_figure_lies_between_those_of_the_schedules(
    monkeypatch: pytest.MonkeyPatch, queries: int, samples: int, seconds: int, status: str
) -> None:
    made = [Schedule(1000 + n, 1, (600 + n) * 10**9, 599 * 10**9) for n in (1, 0, 2)]
    monkeypatch.setattr(seeded, "_schedules", lambda log: made)
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    run.entries |= {
        "generated_query_count": queries,
        "generated_samples_per_query": samples,
        "generated_query_duration": seconds * 10**9,
    }
    (found,) = [v for v in judge(run.facts()) if v.rule == "generated_queries"]
    assert found.status == status, found.line
