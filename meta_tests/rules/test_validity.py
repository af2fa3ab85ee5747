"""A performance run's seeds."""

from __future__ import annotations

from dataclasses import replace

from meta_tests.made_runs import MadeRun, every_scenario
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.rules import judge


def test_seeds_of_another_round_are_named() -> None:
    run = MadeRun(*every_scenario()[0], "performance", ROUNDS["v5.1"])
    facts = replace(run.facts(), round=ROUNDS["v6.1"])
    (verdict,) = [v for v in judge(facts) if not v.passed]
    assert (verdict.rule, verdict.found) == ("seeds", "the seeds of v5.1")
