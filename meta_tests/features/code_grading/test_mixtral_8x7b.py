"""Mixtral's scores, against figures that the official script printed for these texts."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.code_grading.graders import graded, no_sandbox
from meta_tests.scorers.answers import PAIRS, answer
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading.benchmarks.mixtral_8x7b import (
    MixtralScorer,
    final_number,
    is_right_number,
)
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.scorers.scorer import Answer

ANSWERS = [
    answer(*PAIRS[0], "OpenOrca"),
    answer("The answer is 5. Or 6?", "5", "GSM8K"),
    answer("good", "", "MBXP", "python_add"),
    answer("1 then 2", "3", "GSM8K"),
    answer("bad", "", "MBXP", "php_add"),
    answer("good", "", "MBXP", "go_add"),
    answer(*PAIRS[3], "OpenOrca"),
    answer("good```bad", "", "MBXP", "ruby_add"),
    answer("", "0", "GSM8K"),
]
SCORER = MixtralScorer(graded(lambda text: text.startswith("good")))


def test_the_figures_are_the_official_ones() -> None:
    SCORER.check()
    scores = SCORER.score(ANSWERS)
    assert scores.values == {
        "rouge1": 54.1667,
        "rouge2": 47.1429,
        "rougeL": 54.1667,
        "rougeLsum": 54.1667,
        "gsm8k": 33.333333333333336,
        "mbxp": 66.66666666666667,
        "gen_len": 73,
        "gen_num": 9,
        "gen_tok_len": 124,
        "tokens_per_sample": 13.8,
    }
    assert scores.not_judged == {}
    assert scores.per_answer["gsm8k"] == (None, 100, None, 0, None, None, None, None, 0)
    assert scores.per_answer["mbxp"] == (None, None, 100, None, 0, None, None, 100, None)
    assert scores.standard_errors["gsm8k"] == 33.3333


@given(st.text("019,.- a\u0663", max_size=12))
def test_the_number_that_an_answer_ends_with(text: str) -> None:
    """By the official pattern."""
    numbers = re.findall(r"-?[\d,]*\.?\d+", text)
    assert final_number(text) == (numbers[-1] if numbers else "")
    for before in ("", "7. The answer is 3. "):
        whole = f"{before}The answer is{text}"
        assert final_number(whole) == (numbers[0] if numbers else "3" if before else "")


@pytest.mark.parametrize(
    ("text", "reference", "right"),
    [
        ("It is 12.\nQ: and 99?", "12", True),
        ("\nQ: 5", "5", False),
        ("1,200.0", "1200", True),
        ("5", "five", False),
        ("9" * 20_000, "1", False),
    ],
)
def test_a_number_is_right_as_a_float(text: str, reference: str, right: bool) -> None:
    assert is_right_number(text, reference) is right


def test_a_figure_without_samples_or_sandbox_is_not_judged() -> None:
    scores = SCORER.score([ANSWERS[0]])
    assert set(scores.not_judged) == {"gsm8k", "mbxp"}
    assert not {"gsm8k", "mbxp"} & {*scores.values, *scores.per_answer}
    scores = MixtralScorer(no_sandbox).score(ANSWERS[1:3])
    assert scores.not_judged["mbxp"] == "no sandbox"
    assert scores.not_judged["rougeLsum"] == "no sample of OpenOrca in this run"
    assert (scores.values["gsm8k"], scores.values["gen_len"]) == (100, 0)


def test_the_grader_is_given_programs_of_the_six_languages_alone() -> None:
    given_ids: list[Any] = []

    def code(answers: Sequence[Answer]) -> CodeGrades:
        given_ids.extend(answer.sample.id for answer in answers)
        return CodeGrades((True, None, True))

    scores = MixtralScorer(code).score(ANSWERS)
    assert given_ids == ["python_add", "php_add", "ruby_add"]
    assert scores.not_judged == {"mbxp": "1 of 3 programs could not be judged"}
    for kind, id_, why in (
        ("HumanEval", "", "sample 0: kind 'HumanEval' is not known"),
        ("MBXP", "add", "expected <language>_<name>"),
    ):
        with pytest.raises(DatasetError, match=why):
            SCORER.score([answer("a", "b", kind, id_)])
