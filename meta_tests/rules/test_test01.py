"""TEST01: answers and rate compared with the accuracy and performance runs of the same result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from meta_tests.made_runs import MadeRun
from meta_tests.tampering.rule_breaks import verdict_on
from mlperf_suite.benchmarks.definition import WORD_ACCURACY
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.multimodal.whisper import WHISPER
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.loadgen.logs import AccuracyLog
from mlperf_suite.rules.facts import ComparedRuns, SubmittedTexts
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.run_kind import Selection

OFFLINE = WHISPER.scenario("Offline")


def made(*, submitted: bool = False) -> MadeRun:
    return MadeRun(WHISPER, OFFLINE, "test01", ROUNDS["v6.1"], submitted=submitted)


def with_an_answer(run: MadeRun, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> MadeRun:
    first, *rest = run.answers
    run.answers = [replace(first, token_ids=change(tuple(first.token_ids))), *rest]
    return run


def test_the_runs_that_it_is_compared_with_are_made_before_it() -> None:
    key = RunKey("whisper", "Offline", "test01")
    plan = plan_session(Selection([key], offline_rate_given=True))
    assert [of.mode for of in plan.runs] == ["accuracy", "performance", "test01"]


@pytest.mark.parametrize(
    ("factor", "status"), [(1.0, "passed"), (1.0099, "passed"), (1.0102, "failed")]
)
def test_answers_that_differ_have_to_be_as_accurate(factor: float, status: str) -> None:
    run = with_an_answer(made(), lambda ids: ids[:-1])
    scores = {WORD_ACCURACY: run.scores[WORD_ACCURACY] * factor}
    run.compared = replace(run.compared, scores=scores)
    verdict = verdict_on(run.facts(), "test01_same_answers")
    assert verdict.status == status and verdict.found.startswith("1,632 of 1,633 answers")


def test_a_part_of_the_samples_has_no_accuracy_to_compare() -> None:
    run = with_an_answer(made(), lambda ids: ids[:-1])
    run.answers.pop()
    verdict = verdict_on(run.facts(), "test01_same_answers")
    assert verdict.status == "failed" and verdict.why == "not every sample was logged"


def test_without_the_other_runs_or_a_valid_one_nothing_is_compared() -> None:
    run = made()
    facts = replace(run.facts(), compared=ComparedRuns())
    run.entries["result_validity"] = "INVALID"
    assert verdict_on(run.facts(), "test01_same_rate").status == "failed"
    for rule in ("same_answers", "same_rate"):
        assert verdict_on(facts, f"test01_{rule}").status == "not judged"


def test_a_cut_log_in_a_submission_is_not_judged() -> None:
    run = made(submitted=True)
    facts = run.facts()
    logs = replace(facts.logs, accuracy=AccuracyLog((), ("not JSON: cut",)))
    for rule in ("log_is_whole", "same_answers"):
        verdict = verdict_on(replace(facts, logs=logs), f"test01_{rule}")
        assert verdict.status == "not judged" and "may be cut" in verdict.why
    in_session = replace(facts, logs=logs, submitted=None)
    assert verdict_on(in_session, "test01_log_is_whole").status == "failed"


def accuracies(*figures: float) -> tuple[str, ...]:
    return tuple(f"Word Error Rate: {100 - f}%, accuracy={f}%\n" for f in figures)


@pytest.mark.parametrize(
    ("texts", "status"),
    [
        *((accuracies(97.9, other), "passed") for other in (97.9, 96.95)),
        *((texts, "failed") for texts in (accuracies(97.9, 96.90), accuracies(97.9), (), ("", ""))),
    ],
)
def test_accuracies_in_place_of_equal_answers(texts: tuple[str, ...], status: str) -> None:
    facts = made(submitted=True).facts()
    submitted = SubmittedTexts(
        verify_txt="TEST FAIL\n", verify_others=("TEST PASS\n",), accuracy_txts=texts
    )
    assert verdict_on(replace(facts, submitted=submitted), "test01_verified").status == status
