"""A data set of several exams: each answer is right or wrong by its own exam's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError
from mlperf_suite.scorers.code_grading import CodeGrader, CodeGrades, obstacle, run_programs
from mlperf_suite.scorers.figures import among_all, percentages
from mlperf_suite.scorers.protocol import Answer, Score

LIVE_CODE_BENCH = "livecodebench"
"""Part of the lower-case kind of every LiveCodeBench sample, in each data set that has them."""
Grader = Callable[[Sequence[Answer]], CodeGrades]
"""Takes the answers of an exam, at least one; says whether each is right."""


def by_text(is_right: Callable[[str, str], bool]) -> Grader:
    """A grader that compares each answer's stripped text with its reference."""

    def grade(answers: Sequence[Answer]) -> CodeGrades:
        return CodeGrades(tuple(is_right(a.text.strip(), a.sample.reference) for a in answers))

    return grade


def by_program(code: CodeGrader, program_of: Callable[[str], str | None]) -> Grader:
    """A grader that runs each answer's program; an answer without one is wrong.

    `code` gets answers whose text is the program alone. `program_of` finds it in an answer's
    stripped text.
    """

    def grade(answers: Sequence[Answer]) -> CodeGrades:
        found = [program_of(answer.text.strip()) for answer in answers]
        with_program = [
            Answer(answer.sample, answer.token_ids, program)
            for answer, program in zip(answers, found, strict=True)
            if program
        ]
        grades = run_programs(code, with_program)
        passed = iter(grades.passed)
        return CodeGrades(
            tuple(next(passed) if program else False for program in found), grades.not_judged
        )

    return grade


def programs_lack(code: CodeGrader, samples: Sequence[Sample]) -> str:
    """What this machine lacks to judge the samples' programs; "" if nothing."""
    return obstacle(code, [s for s in samples if LIVE_CODE_BENCH in s.kind.lower()])


class Results:
    """Graded answers of several exams.

    `graders`: by a part of the lower-case kind of an exam's samples; the first match is used.
    `places` and `grades` cover each exam that has answers, in that order. Raises DatasetError for a
    kind that matches none.
    """

    def __init__(self, answers: Sequence[Answer], graders: Mapping[str, Grader]) -> None:
        found: dict[str, list[int]] = {name: [] for name in graders}
        for place, answer in enumerate(answers):
            kind = answer.sample.kind.lower()
            exam = next((name for name in graders if name in kind), None)
            if exam is None:
                raise DatasetError(
                    f"sample {place}: kind {answer.sample.kind!r} is not known; "
                    f"allowed is what contains one of: {', '.join(graders)}"
                )
            found[exam].append(place)
        self._count = len(answers)
        self.places = {name: places for name, places in found.items() if places}
        self.grades = {
            name: graders[name]([answers[place] for place in places])
            for name, places in self.places.items()
        }

    @property
    def not_judged(self) -> dict[str, str]:
        """By exam, the reason why it was not judged."""
        return {name: one.not_judged for name, one in self.grades.items() if one.not_judged}

    @property
    def shares(self) -> tuple[Score, ...]:
        """The share of right answers in percent, for each exam that was judged."""
        return tuple(
            Score(name, sum(map(bool, one.passed)) / len(one.passed) * 100, "%")
            for name, one in self.grades.items()
            if not one.not_judged
        )

    @property
    def per_answer(self) -> dict[str, tuple[float | None, ...]]:
        """By judged exam: 100 for a right answer, 0 for a wrong one, None for other exams'
        answers."""
        return {
            name: among_all(
                self.places[name], percentages(bool(right) for right in one.passed), self._count
            )
            for name, one in self.grades.items()
            if not one.not_judged
        }

    @property
    def right(self) -> list[bool]:
        """Whether each answer is right, in the order given; only valid if every exam was judged."""
        of_place = {
            place: bool(right)
            for name, one in self.grades.items()
            for place, right in zip(self.places[name], one.passed, strict=True)
        }
        return [of_place[place] for place in range(self._count)]
