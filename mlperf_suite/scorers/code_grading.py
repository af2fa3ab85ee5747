"""The protocol of a code grader, which runs the programs in answers and reports which pass.

A scorer gets its grader as a field, so that it is independent of languages, sandboxes and tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.scorers.protocol import Answer


@dataclass(frozen=True, slots=True)
class CodeGrades:
    """`passed`: per answer, in the order given; None if that answer could not be judged.

    `not_judged`: why the figure as a whole could not be judged ("no sandbox"), in a few words.
    """

    passed: tuple[bool | None, ...]
    not_judged: str = ""


class CodeGrader(Protocol):
    """Runs the programs in answers.

    The scorer defines the text of an answer: the model's whole answer (MBXP), or the program alone
    (LiveCodeBench).
    """

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        """Grade the answers, at least one. Must not raise because of model output."""


@runtime_checkable
class LooksAhead(Protocol):
    """A grader that can report before a run what it lacks."""

    def obstacle(self, samples: Sequence[Sample], /) -> str:
        """Why answers to these samples cannot be judged here, in a few words; "" if they can."""


def obstacle(code: CodeGrader, samples: Sequence[Sample]) -> str:
    """What the grader lacks for answers to these samples, in a few words; "" if nothing is
    known."""
    return code.obstacle(samples) if samples and isinstance(code, LooksAhead) else ""


def run_programs(code: CodeGrader, answers: Sequence[Answer]) -> CodeGrades:
    """The grades of these answers, or the reason why the figure cannot be computed.

    A figure over only the answers that could be judged would not be comparable, so one unknown
    grade leaves it out. Raises ValueError if the grader returns a wrong number of grades.
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
