"""DeepSeek-R1 on GPQA, MMLU-Pro, MATH-500, AIME and LiveCodeBench: the share of right answers.

Source: language/deepseek-r1/eval_accuracy.py, whose exact_match is the mean over all samples and
whose tokens_per_sample is not rounded. The figures per exam are not official.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from mlperf_suite.errors import UsageError
from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.features.code_grading.scorers.exams import (
    LIVE_CODE_BENCH,
    ExamScorer,
    aime_integer,
    boxed,
    by_program,
    by_text,
    exam_scores,
    is_choice,
    is_integer,
    last_letter,
    letter_after_answer,
    programs,
    unescaped,
    unquoted,
)
from mlperf_suite.scorers.scorer import Answer, Scores


@dataclass(frozen=True, slots=True)
class DeepseekR1Scorer(ExamScorer):
    """exact_match over all answers in percent, that of each exam under its name, and lengths.

    A program is the answer's first Python block.
    """

    name: str = "deepseek_r1"

    def check(self) -> None:
        """Raise UsageError if the packages that read mathematical answers are missing."""
        missing = [name for name in ("pylatexenc", "sympy") if find_spec(name) is None]
        if missing:
            raise UsageError(f"deepseek-r1's answers need {' and '.join(missing)}: install them")

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer by its exam's rules. Raises DatasetError for an unknown kind."""
        graders = {
            "gpqa": by_text(lambda text, right: is_choice(choice(text, "D"), right, "D")),
            "mmlu_pro": by_text(lambda text, right: is_choice(choice(text, "J"), right, "J")),
            "math500": _grade_boxes,
            "aime": by_text(lambda text, right: is_integer(aime_integer(text), right)),
            LIVE_CODE_BENCH: by_program(self.code, lambda text: next(iter(programs(text)), None)),
        }
        return exam_scores(answers, graders)


def choice(text: str, last: str) -> str | None:
    """The letter from A to `last` (D or J) that an answer, already stripped, chooses."""
    text = unescaped(unquoted(text))
    letter = letter_after_answer(text, last)
    return last_letter(text) if letter is None and last == "J" else letter


def _grade_boxes(answers: Sequence[Answer]) -> CodeGrades:
    boxes = [boxed(answer.text.strip()) or "" for answer in answers]
    pairs = zip(boxes, (answer.sample.reference for answer in answers), strict=True)
    from mlperf_suite.features.code_grading.scorers.math_equality import grade_math

    return CodeGrades(tuple(grade_math(list(pairs))))
