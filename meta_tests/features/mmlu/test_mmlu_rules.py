"""MMLU's rules: each has its test, and what the score of few questions shows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from meta_tests.tampering.rule_breaks import verdict_on
from mlperf_suite.features.mmlu import mmlu_rules
from mlperf_suite.features.mmlu.mmlu_questions import PUBLISHED_SCORES
from mlperf_suite.features.mmlu.mmlu_rules import MmluFacts
from mlperf_suite.rules.registry import rules_of


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


def test_each_rule_has_its_test() -> None:
    source = (Path(mmlu_rules.__file__).parent / "tests" / "test_mmlu.py").read_text()
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    names = {function.name for function in functions} - {"test_share"}
    rules = [rule.name for rule in rules_of("mmlu")]
    assert names == {f"test_{rule}" for rule in rules}
    for rule in rules:
        assert f"def test_{rule}(mmlu_run):" in source
        assert f'mmlu_run.obeys("{rule}")' in source
