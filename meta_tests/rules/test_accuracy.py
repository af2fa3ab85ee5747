"""An accuracy run's logs."""

from __future__ import annotations

from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario
from meta_tests.tampering.rule_breaks import not_passed
from mlperf_suite.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.rules import judge


def test_a_damaged_accuracy_log_counts_where_it_is_not_cut() -> None:
    run = MadeRun(*every_scenario()[0], "accuracy")
    run.accuracy_damage = ("not JSON",)
    assert list(not_passed(judge(run.facts()))) == ["accuracy_log_is_whole"]
    run.submitted = True
    assert not_passed(judge(run.facts())) == {}


@pytest.mark.parametrize("submitted", [False, True])
def test_a_sample_library_with_more_samples_than_accuracy_takes_is_answered_in_whole(
    submitted: Any,
) -> None:
    """One library for all modes: LoadGen issues the first accuracy_sample_count_override of it."""
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Offline"), "accuracy", submitted=submitted)
    run.entries |= {
        "qsl_reported_total_count": GPT_OSS_120B.samples,
        "qsl_reported_performance_count": GPT_OSS_120B.samples,
        "requested_accuracy_sample_count_override": GPT_OSS_120B.samples_of("accuracy"),
    }
    assert not_passed(judge(run.facts())) == {}
    if submitted:
        run.scores[GPT_OSS_120B.counted_as] -= 1
    else:
        run.answers.pop()
    assert "accuracy_every_sample" in not_passed(judge(run.facts()))


def test_where_loadgen_does_not_say_how_many_it_takes_it_takes_all() -> None:
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Offline"), "accuracy")
    del run.entries["effective_accuracy_sample_count"]
    run.entries["qsl_reported_total_count"] = GPT_OSS_120B.samples
    failures = set(not_passed(judge(run.facts())))
    assert {"accuracy_every_sample", "accuracy_whole_dataset"} <= failures
