"""DeepSeek-R1's scores; each answer is judged by its exam's rules."""

from typing import Any

import pytest

from meta_tests.features.code_grading.graders import graded, no_sandbox
from meta_tests.scorers.answers import answer
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading.benchmarks.deepseek_r1 import DeepseekR1Scorer
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades

ANSWERS = [
    answer("Answer: B", "B", "gpqa"),
    answer("It is E.", "E", "gpqa"),
    answer("It is E.", "e", "mmlu_pro"),
    answer("So \\boxed{0.5}", "\\frac{1}{2}", "math500"),
    answer("So \\boxed{ 2x }", "2x", "math500"),
    answer("So \\boxed{}", "0", "math500"),
    answer("\\boxed{41}", "41", "AIME1983"),
    answer("```python\ngood\n``` or ```python\nbad\n```", "q1", "livecodebench"),
    answer("good, but no block", "q2", "livecodebench"),
    answer("```python\nbad\n```", "q3", "livecodebench"),
]
RIGHT = (100, 0, 100, 100, 100, 0, 100, 100, 0, 0)
SCORER = DeepseekR1Scorer(graded(lambda text: text == "good"))


def test_exact_match_is_the_mean_over_all() -> None:
    SCORER.check()
    scores = SCORER.score(ANSWERS)
    assert scores.per_answer["exact_match"] == RIGHT
    assert scores.values == {
        "exact_match": 60,
        "gpqa": 50,
        "mmlu_pro": 100,
        "math500": pytest.approx(200 / 3),
        "aime": 100,
        "livecodebench": pytest.approx(100 / 3),
        "gen_num": 10,
        "gen_tok_len": sum(len(item.text) for item in ANSWERS),
        "tokens_per_sample": sum(len(item.text) for item in ANSWERS) / 10,
    }
    assert scores.per_answer["gpqa"] == (100, 0, *[None] * 8)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (no_sandbox, "no sandbox"),
        (
            lambda answers: CodeGrades((True, None)[: len(answers)]),
            "1 of 2 programs could not be judged",
        ),
    ],
)
def test_without_the_programs_there_is_no_exact_match(code: Any, why: str) -> None:
    scores = DeepseekR1Scorer(code).score(ANSWERS)
    assert scores.not_judged == {"livecodebench": why, "exact_match": f"livecodebench: {why}"}
    assert not {"exact_match", "livecodebench"} & {*scores.values, *scores.per_answer}
    assert scores.values["gpqa"] == 50
    # Where no answer has a program there is nothing that a sandbox is needed for.
    assert DeepseekR1Scorer(code).score(ANSWERS[:7]).values["exact_match"] == pytest.approx(500 / 7)


def test_an_unknown_exam_or_a_wrong_number_of_grades_is_refused() -> None:
    with pytest.raises(ValueError, match="1 grades for 2 answers"):
        DeepseekR1Scorer(lambda answers: CodeGrades((True,))).score(ANSWERS)
    with pytest.raises(DatasetError, match="sample 1: kind 'gsm8k' is not known"):
        SCORER.score([ANSWERS[0], answer("a", "b", "gsm8k")])
