"""An accuracy run's logs, and its scores against their reference."""

from dataclasses import replace
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario
from meta_tests.tampering.rule_breaks import not_passed, verdict_on
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import ExpectedScore, ReferenceAccuracy
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, OFFICIAL
from mlperf_suite.rules import accuracy_verdict, judge
from mlperf_suite.rules.accuracy_files import MAX_ACCURACY_LOG_BYTES
from mlperf_suite.rules.accuracy_rules import gate_name
from mlperf_suite.rules.facts import find_deviations
from mlperf_suite.rules.verdict import Verdict

LLAMA3 = "meta-llama/meta-llama-3-8b-instruct"


@pytest.mark.parametrize(
    ("max_new_tokens", "engine", "deviations"),
    [
        (128, {}, ()),
        (128, {"enable_prefix_caching": False, "dtype": "bfloat16"}, ()),
        (128, {"enable_prefix_caching": True}, ("a prefix cache",)),
        (130, {}, ("at most 130 new tokens, not 128",)),
        (128, {"model_changes": "hf_overrides"}, ("a model that is changed by hf_overrides",)),
        (128, {"server_model": "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"}, ()),
        (128, {"server_model": LLAMA3}, ("the server runs meta-llama/Meta-Llama-3-8B-Instruct",)),
    ],
)
def test_another_generation_is_told(max_new_tokens: Any, engine: Any, deviations: Any) -> None:
    assert find_deviations(OFFICIAL, max_new_tokens, engine) == deviations


@pytest.mark.parametrize(("samples", "status"), [(2, "passed"), (3, "failed")])
def test_the_same_answer_to_a_sample_issued_again_is_right(samples: int, status: str) -> None:
    """As of TEST06 with --total-sample-count=1; to different samples it is not."""
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "test06")
    run.entries["qsl_reported_total_count"] = samples
    run.answers = [
        replace(run.answers[0], index=place % samples, place=place) for place in range(100)
    ]
    assert verdict_on(run.facts(), "test06_answers").status == status


def test_a_damaged_accuracy_log_counts_where_it_is_not_cut() -> None:
    for submitted, failures in ((False, ["accuracy_log_is_whole"]), (True, [])):
        run = MadeRun(*every_scenario()[0], "accuracy", submitted=submitted)
        run.accuracy_damage = ("not JSON",)
        assert list(not_passed(judge(run.facts()))) == failures


def test_an_answer_to_a_sample_that_is_none_is_no_samples_answer() -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "accuracy")
    for index in (-1, LLAMA3_1_8B.samples):
        run.answers[0] = replace(run.answers[0], index=index)
        assert "accuracy_every_sample" in not_passed(judge(run.facts()))


def gates(facts: Any) -> dict[str, Verdict]:
    names = {gate_name(metric): metric for metric in facts.benchmark.metrics}
    return {names[v.rule]: v for v in judge(facts) if v.rule in names}


OF_LENGTH = [b for b in BENCHMARKS.values() if any(o.unit != "%" for o in b.reference.scores)]


@pytest.mark.parametrize("row", OF_LENGTH, ids=lambda row: row.id)
def test_lengths_at_their_limits_pass(row: Any) -> None:
    run = MadeRun(row, row.scenarios[0], "accuracy", submitted=True)
    run.accuracy_bytes = MAX_ACCURACY_LOG_BYTES
    (score,) = [s for s in row.reference.scores if s.unit != "%"]
    for limit in (score.low() * 1.001, score.high * 0.999):
        run.scores[score.name] = round(limit, 6)
        assert not_passed(judge(run.facts())) == {}


@pytest.mark.parametrize("smoke", [False, True])
def test_without_a_reference_no_figure_is_judged_and_the_reason_is_said(smoke: Any) -> None:
    facts = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenarios[0], "accuracy").facts()
    facts = replace(facts, reference=None, no_reference_reason="made up", smoke=smoke)
    verdicts = gates(facts)
    assert set(verdicts) == set(LLAMA3_1_8B.metrics)
    assert {(v.status, v.why) for v in verdicts.values()} == {("not judged", "made up")}
    assert verdicts["rouge1"].found == "38.7792" and verdicts["gen_len"].found == "8,167,644"
    assert accuracy_verdict(judge(facts)) is None


def test_what_was_not_scored_is_not_judged_only_where_that_is_nobodys_fault() -> None:
    facts = replace(MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenarios[0], "accuracy").facts(), scores=None)
    assert {v.status for v in gates(facts).values()} == {"failed"}
    excused = replace(facts, no_score_reason="no accuracy.txt beside the log")
    assert {v.status for v in gates(excused).values()} == {"not judged"}


@pytest.mark.parametrize(("figure", "status"), [(2.0, "passed"), (1.9, "failed"), (1e9, "passed")])
def test_a_figure_without_an_upper_limit_has_none(figure: Any, status: Any) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenarios[0], "accuracy")
    run.scores["gen_len"] = figure
    score = ExpectedScore("gen_len", "points", 4, 0.5, 0.5)
    reference = ReferenceAccuracy((score,), 13_368, "made up")
    verdicts = gates(replace(run.facts(), reference=reference))
    assert verdicts["gen_len"].status == status
    assert verdicts["gen_len"].required == "at least 2 points"
    assert verdicts["rouge1"].why == "no reference accuracy is known for rouge1"
    assert verdicts["rouge1"].status == "not judged"
