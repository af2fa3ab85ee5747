"""What a grader of programs is: it runs what answers hold, and says which of them pass.

A scorer is given one as a field, so that it says nothing about languages, sandboxes or tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.scorers.protocol import Answer


@dataclass(frozen=True, slots=True)
class CodeGrades:
    """`passed`: of each answer in the order given, None where that one could not be judged.

    `not_judged`: why the figure as a whole is not ("no sandbox"), in a few words.
    """

    passed: tuple[bool | None, ...]
    not_judged: str = ""


class CodeGrader(Protocol):
    """Runs the programs of answers.

    An answer's text is what the scorer says that it is: a model's whole answer (MBXP), or the
    program alone (LiveCodeBench).
    """

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        """Grade the answers, at least one. Model output is never a reason to raise."""


@runtime_checkable
class LooksAhead(Protocol):
    """A grader that says before anything is run what it lacks."""

    def obstacle(self, samples: Sequence[Sample], /) -> str:
        """Why answers to these samples cannot be judged here, in a few words; "" where they can."""


def obstacle(code: CodeGrader, samples: Sequence[Sample]) -> str:
    """What the grader lacks for answers to these samples, in a few words; "" for nothing known."""
    return code.obstacle(samples) if samples and isinstance(code, LooksAhead) else ""


def run_programs(code: CodeGrader, answers: Sequence[Answer]) -> CodeGrades:
    """The grades of these answers: all of them known, or the reason why the figure is not had.

    A figure over those alone that could be judged would be another figure, so that one unknown
    grade leaves it out. Raises ValueError where the grader returns a wrong number of grades.
    """
    if not answers:
        return CodeGrades(())
    grades = code(answers)
    if grades.not_judged:
        return CodeGrades((None,) * len(answers), grades.not_judged)
    if len(grades.passed) != len(answers):
        raise ValueError(f"{len(grades.passed)} grades for {len(answers)} answers")
    unknown = sum(passed is None for passed in grades.passed)
    if unknown:
        why = f"{unknown:,} of {len(answers):,} programs could not be judged"
        return CodeGrades(grades.passed, why)
    return grades
