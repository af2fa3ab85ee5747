"""The rule on an MMLU score, for runs of few questions."""

from __future__ import annotations

import pytest

from meta_tests.tampering.rule_breaks import verdict_on
from mlperf_suite.datasets.mmlu_questions import PUBLISHED_SCORES
from mlperf_suite.rules.mmlu_rules import MmluFacts


@pytest.mark.parametrize(
    ("right", "questions", "status"),
    [
        *((right, asked, "not judged") for right, asked in ((3, 3), (4, 5))),
        *((right, asked, "passed") for right, asked in ((5, 5), (12, 20), (25, 57))),
        *((right, asked, "failed") for right, asked in ((0, 5), (6, 20), (20, 57))),
        (3_800, 14_042, "passed"),
        (3_500, 14_042, "failed"),
    ],
)
def test_few_questions_do_not_show_guessing(right: int, questions: int, status: str) -> None:
    accuracy = 100 * right / questions
    run = MmluFacts(questions, next(iter(PUBLISHED_SCORES)), questions, accuracy, questions)
    assert verdict_on(run, "mmlu_score").status == status
