"""An accuracy run's logs, and its scores against their reference."""

from array import array
from dataclasses import replace
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario
from meta_tests.tampering.rule_breaks import not_passed, verdict_on
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Benchmark, ExpectedScore, ReferenceAccuracy
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.code_grading.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.features.multimodal.qwen3_vl import QWEN3_VL
from mlperf_suite.features.multimodal.whisper import WHISPER
from mlperf_suite.loadgen.logs import logged_answers
from mlperf_suite.rules import accuracy_verdict, judge
from mlperf_suite.rules.accuracy_files import MAX_ACCURACY_LOG_BYTES
from mlperf_suite.rules.accuracy_rules import gate_name
from mlperf_suite.rules.verdict import Verdict

TEXT = '{"category": "Café", "brand": "é", "is_secondhand": false}'.encode()

LETTERS = [13, 1, 11, 5, 0, 20, 8, 5]
"""The numbers of the letters in "make the", as whisper's reference passes an answer."""


@pytest.mark.parametrize(
    ("row", "data", "fault"),
    [
        (QWEN3_VL, TEXT, ""),
        (QWEN3_VL, TEXT[:20], ""),
        (QWEN3_VL, array("i", [151_935]).tobytes(), ""),
        (QWEN3_VL, array("i", [151_936]).tobytes(), "token 151936 of a vocabulary of 151,936"),
        # Its bytes are UTF-8, with a zero that no text has.
        (QWEN3_VL, array("i", [0x7F7F7F]).tobytes(), "token 8355711 of a vocabulary of 151,936"),
        (QWEN3_VL, b"\xff\xff\xff\xff", "token -1 of a vocabulary of 151,936"),
        (WHISPER, bytes(LETTERS), ""),
        (WHISPER, array("q", LETTERS).tobytes(), ""),
        (WHISPER, array("i", [51_865]).tobytes(), ""),
        (WHISPER, bytes([0, 42, 11, 5]), "of a vocabulary of 51,866"),
        (QWEN3_VL, bytes(LETTERS), "of a vocabulary of 151,936"),
        (LLAMA3_1_8B, TEXT, "of a vocabulary of 128,256"),
        (LLAMA3_1_8B, b"", ": no token"),
    ],
)
def test_an_answer_is_tokens_or_text(row: Benchmark, data: bytes, fault: str) -> None:
    facts = MadeRun(row, row.scenario("Offline"), "accuracy").facts()
    log = logged_answers([{"qsl_idx": 3, "seq_id": 0, "data": data.hex()}])
    facts = replace(facts, vocabulary=row.vocabulary, logs=replace(facts.logs, accuracy=log))
    verdict = verdict_on(facts, "accuracy_answers")
    assert (verdict.status == "failed") is bool(fault)
    assert fault in verdict.found


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


@pytest.mark.parametrize("submitted", [False, True])
def test_a_larger_sample_library_is_answered_in_whole(submitted: Any) -> None:
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


def test_an_answer_to_a_sample_that_is_none_is_no_samples_answer() -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "accuracy")
    for index in (-1, LLAMA3_1_8B.samples):
        run.answers[0] = replace(run.answers[0], index=index)
        assert "accuracy_every_sample" in not_passed(judge(run.facts()))


def test_where_loadgen_does_not_say_how_many_it_takes_it_takes_all() -> None:
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Offline"), "accuracy")
    del run.entries["effective_accuracy_sample_count"]
    run.entries["qsl_reported_total_count"] = GPT_OSS_120B.samples
    failures = set(not_passed(judge(run.facts())))
    assert {"accuracy_every_sample", "accuracy_whole_dataset"} <= failures


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
