"""DeepSeek-R1 on GPQA, MMLU-Pro, MATH-500, AIME and LiveCodeBench: the share of right answers.

Source: language/deepseek-r1/eval_accuracy.py, whose exact_match is the mean over all samples and
whose tokens_per_sample is not rounded. The figures per exam are not official.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.scorers.code_grading import CodeGrader, CodeGrades
from mlperf_suite.scorers.exams import (
    LIVE_CODE_BENCH,
    Results,
    aime_integer,
    boxed,
    by_program,
    by_text,
    is_choice,
    is_integer,
    last_letter,
    letter_after_answer,
    programs,
    programs_lack,
    unescaped,
    unquoted,
)
from mlperf_suite.scorers.scorer import (
    EXACT_MATCH,
    GEN_NUM,
    Answer,
    Score,
    Scores,
    percentages,
    token_figures,
)


@dataclass(frozen=True, slots=True)
class DeepseekR1Scorer:
    """exact_match over all answers in percent, that of each exam under its name, and lengths.

    `code` runs the programs of LiveCodeBench; it gets only the program, the answer's first Python
    block.
    """

    code: CodeGrader
    name: str = "deepseek_r1"

    def check(self) -> None:
        """Do nothing: all that this scorer needs is installed with the suite."""

    def obstacle(self, samples: Sequence[Sample]) -> str:
        """What this machine lacks to judge the programs; "" if nothing."""
        return programs_lack(self.code, samples)

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer by its exam's rules. Raises DatasetError for an unknown kind."""
        results = Results(
            answers,
            {
                "gpqa": by_text(lambda text, right: is_choice(choice(text, "D"), right, "D")),
                "mmlu_pro": by_text(lambda text, right: is_choice(choice(text, "J"), right, "J")),
                "math500": _grade_boxes,
                "aime": by_text(lambda text, right: is_integer(aime_integer(text), right)),
                LIVE_CODE_BENCH: by_program(
                    self.code, lambda text: next(iter(programs(text)), None)
                ),
            },
        )
        not_judged = dict(results.not_judged)
        per_answer = results.per_answer
        scores: list[Score] = []
        if not_judged:
            exam, why = next(iter(not_judged.items()))
            not_judged[EXACT_MATCH] = f"{exam}: {why}"
        else:
            right = results.right
            scores.append(Score(EXACT_MATCH, 100.0 * sum(right) / len(right), "%"))
            per_answer = {EXACT_MATCH: percentages(right), **per_answer}
        number = Score(GEN_NUM, len(answers), "answers")
        lengths = (number, *token_figures(answers, None))
        return Scores((*scores, *results.shares, *lengths), per_answer, not_judged)


def choice(text: str, last: str) -> str | None:
    """The letter from A to `last` (D or J) that an answer, already stripped, chooses."""
    text = unescaped(unquoted(text))
    letter = letter_after_answer(text, last)
    return last_letter(text) if letter is None and last == "J" else letter


def _grade_boxes(answers: Sequence[Answer]) -> CodeGrades:
    boxes = [boxed(answer.text.strip()) or "" for answer in answers]
    pairs = zip(boxes, (answer.sample.reference for answer in answers), strict=True)
    from mlperf_suite.scorers.math_equality import grade_math

    return CodeGrades(tuple(grade_math(list(pairs))))
