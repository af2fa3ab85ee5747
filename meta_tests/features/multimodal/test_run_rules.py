"""Runs of whisper and qwen3-vl: TEST01, answers of tokens or of text, the rate of pictures."""

from array import array
from collections.abc import Callable
from dataclasses import replace

import pytest

from meta_tests.made_runs import MadeRun
from meta_tests.tampering.rule_breaks import check_cut_log, verdict_on
from mlperf_suite.benchmarks.definition import WORD_ACCURACY, Benchmark
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.multimodal.qwen3_vl import QWEN3_VL
from mlperf_suite.features.multimodal.whisper import WHISPER
from mlperf_suite.loadgen.load_plan import RunKey
from mlperf_suite.loadgen.logs import logged_answers
from mlperf_suite.rules.facts import ComparedRuns, SubmittedTexts
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.run_kind import Selection, Step
from mlperf_suite.session.timing.run_sizing import RunSizing
from mlperf_suite.settings import resolve_settings

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
    facts = replace(facts, logs=replace(facts.logs, accuracy=log))
    verdict = verdict_on(facts, "accuracy_answers")
    assert (verdict.status == "failed") is bool(fault)
    assert fault in verdict.found


def test_the_first_pictures_make_the_rate_that_was_measured_too_low() -> None:
    for row, qps in ((QWEN3_VL, 15.0), (LLAMA3_1_8B, 10.5)):
        key = RunKey(row.id, "Offline", "performance")
        plan = plan_session(Selection([key]))
        sizing = RunSizing(Inputs(resolve_settings({}, {}), [row]), plan, {})
        sizing.learn(Step("rate", key, "a rate"), 10.0)
        assert sizing.target_qps(key) == qps


# TEST01: answers and rate compared with the accuracy and performance runs of the same result


OFFLINE = WHISPER.scenario("Offline")


def made(*, submitted: bool = False) -> MadeRun:
    return MadeRun(WHISPER, OFFLINE, "test01", ROUNDS["v6.1"], submitted=submitted)


def with_another(run: MadeRun, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> MadeRun:
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
    run = with_another(made(), lambda ids: ids[:-1])
    scores = {WORD_ACCURACY: run.scores[WORD_ACCURACY] * factor}
    run.compared = replace(run.compared, scores=scores)
    verdict = verdict_on(run.facts(), "test01_same_answers")
    assert verdict.status == status and verdict.found.startswith("1,632 of 1,633 answers")


def test_a_part_of_the_samples_has_no_accuracy_to_compare() -> None:
    run = with_another(made(), lambda ids: ids[:-1])
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
    check_cut_log(made(submitted=True), "log_is_whole", "same_answers")


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
