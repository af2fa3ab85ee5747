"""An accuracy run's logs."""

from __future__ import annotations

from meta_tests.compliance.rules.breaks import not_passed
from meta_tests.made_runs import MadeRun, every_scenario
from mlperf_suite.compliance.rules import judge


def test_a_damaged_accuracy_log_counts_where_it_is_not_cut():
    run = MadeRun(*every_scenario()[0], "accuracy")
    run.accuracy_damage = ("not JSON",)
    assert list(not_passed(judge(run.facts()))) == ["accuracy_log_is_whole"]
    run.submitted = True
    assert not_passed(judge(run.facts())) == {}
