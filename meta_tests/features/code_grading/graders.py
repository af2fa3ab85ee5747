"""Graders of programs that run none, for the tests of scorers."""

from collections.abc import Callable, Sequence

from mlperf_suite.features.code_grading.scorers.code_grading import CodeGrades
from mlperf_suite.scorers.scorer import Answer


def graded(passes: Callable[[str], bool]) -> Callable[[Sequence[Answer]], CodeGrades]:
    """A grader that asks a function of the text."""
    return lambda answers: CodeGrades(tuple(passes(item.text) for item in answers))


def no_sandbox(answers: Sequence[Answer]) -> CodeGrades:
    return CodeGrades((None,) * len(answers), "no sandbox")
