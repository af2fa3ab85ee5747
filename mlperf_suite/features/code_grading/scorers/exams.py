"""A data set of several exams: each answer is right or wrong by its own exam's rules.

The last part finds the answer at the end of a chain of thought: a letter, an integer, a box's
content, a program. Source: language/deepseek-r1/eval_accuracy.py and
language/gpt-oss-120b/eval_accuracy.py, whose rules are the same unless a function says otherwise.
Some of the official patterns take time quadratic or cubic in the length of a run of spaces; those
here find the same matches in linear time, because they take each run whole (the possessive *+).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.code_grading.scorers.code_grading import (
    CodeGrader,
    CodeGrades,
    run_programs,
)
from mlperf_suite.scorers.scorer import (
    EXACT_MATCH,
    GEN_NUM,
    Answer,
    Score,
    Scores,
    among_all,
    obstacle_of,
    percentages,
    token_figures,
)

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
        programs = [program_of(answer.text.strip()) for answer in answers]
        with_program = [
            Answer(answer.sample, answer.token_ids, program)
            for answer, program in zip(answers, programs, strict=True)
            if program
        ]
        grades = run_programs(code, with_program)
        passed = iter(grades.passed)
        return CodeGrades(
            tuple(next(passed) if program else False for program in programs), grades.not_judged
        )

    return grade


@dataclass(frozen=True, slots=True)
class ExamScorer:
    """What scorers of several exams share. `code` runs the programs of LiveCodeBench; it gets only
    the program."""

    code: CodeGrader

    def check(self) -> None:
        """Do nothing: all that these scorers need is installed with the suite."""

    def obstacle(self, samples: Sequence[Sample]) -> str:
        """What this machine lacks to judge the programs; "" if nothing."""
        return obstacle_of(self.code, [s for s in samples if LIVE_CODE_BENCH in s.kind.lower()])


def exam_scores(
    answers: Sequence[Answer],
    graders: Mapping[str, Grader],
    exact_match: Callable[[Sequence[bool]], float] | None = None,
) -> Scores:
    """exact_match, which is not judged unless every exam is; the share of right answers of each
    judged exam; and lengths. All shares are in percent.

    `graders`: by a part of the lower-case kind of an exam's samples; the first match is used.
    `exact_match` computes it from whether each answer is right, in the order given; by default it
    is the mean over all answers. Raises DatasetError for a kind that matches no grader.
    """
    scores: list[Score] = []
    per_answer: dict[str, tuple[float | None, ...]] = {}
    not_judged: dict[str, str] = {}
    of_place: dict[int, bool] = {}
    for name, places in _places(answers, graders).items():
        grades = graders[name]([answers[place] for place in places])
        if grades.not_judged:
            not_judged[name] = grades.not_judged
            continue
        right = list(map(bool, grades.passed))
        scores.append(Score(name, sum(right) / len(right) * 100, "%"))
        per_answer[name] = among_all(places, percentages(right), len(answers))
        of_place.update(zip(places, right, strict=True))
    if not_judged:
        exam, why = next(iter(not_judged.items()))
        not_judged[EXACT_MATCH] = f"{exam}: {why}"
    else:
        right = [of_place[place] for place in range(len(answers))]
        if exact_match is None:
            share = 100.0 * sum(right) / len(right)
            per_answer = {EXACT_MATCH: percentages(right), **per_answer}
        else:
            share = exact_match(right)
        scores.insert(0, Score(EXACT_MATCH, share, "%"))
    lengths = (Score(GEN_NUM, len(answers), "answers"), *token_figures(answers, None))
    return Scores((*scores, *lengths), per_answer, not_judged)


def _places(answers: Sequence[Answer], exams: Iterable[str]) -> dict[str, list[int]]:
    """The indices of each exam's answers, in the order of `exams`; without exams that have none."""
    places: dict[str, list[int]] = {name: [] for name in exams}
    for place, answer in enumerate(answers):
        kind = answer.sample.kind.lower()
        exam = next((name for name in places if name in kind), None)
        if exam is None:
            raise DatasetError(
                f"sample {place}: kind {answer.sample.kind!r} is not known; "
                f"must contain one of: {', '.join(places)}"
            )
        places[exam].append(place)
    return {name: of_exam for name, of_exam in places.items() if of_exam}


_LETTER_AFTER = {
    last: re.compile(
        rf"\b(?:FINAL)?ANSWER\b\s*+(?:[:=]\s*+)?+(?:\(\s*+)?+([A-{last}])(?![A-Za-z])", re.I
    )
    for last in "DJ"
}
"""The official pattern also takes "FINAL ANSWER" with a space and the text after the letter.

Neither changes which letter is the last one found: a match never ends within another's beginning.
"""
_ANY_LETTER = re.compile(r"\b([A-J])\b", re.I)
_BOX = r"\boxed{"
_BRACE = re.compile("[{}]")
_BOXED_DIGITS = re.compile(r"\\boxed{\s*(\d+)\s*}")
_ANSWERED_DIGITS = re.compile(r"Answer:\s*+(\d+)(?!\.)\b", re.I)
_HIGHEST_OF_AIME = 999
_PYTHON_BLOCK = re.compile("```python(.*?)```", re.S)
_BLOCK = re.compile("```(.*?)```", re.S)
_PYTHON_NAME = re.compile(r"^(?:python|py)\s*\n", re.I)


def unquoted(text: str) -> str:
    """The string inside a text that was printed as a list of one string: strips brackets and
    quotes."""
    if text.startswith(("['", '["')) and text.endswith(("']", '"]')):
        return text[2:-2].strip()
    return text


def unescaped(text: str) -> str:
    """Replaces escaped line ends and quotes (a backslash and n or ') by the characters
    themselves."""
    return text.replace(r"\n", "\n").replace(r"\'", "'")


def letter_after_answer(text: str, last: str) -> str | None:
    """The letter after the last "answer", from A to `last` (D or J); None if there is none."""
    letter = None
    for match in _LETTER_AFTER[last].finditer(text):
        letter = match[1].upper()
    return letter


def last_letter(text: str) -> str | None:
    """The last letter from A to J that stands alone; None if there is none."""
    letters = _ANY_LETTER.findall(text)
    return letters[-1].upper() if letters else None


def is_choice(letter: str | None, reference: str, last: str) -> bool:
    """Whether a letter is the reference's and in the range A to `last`."""
    choices = "ABCDEFGHIJ"[: ord(last) - ord("A") + 1]
    return letter is not None and letter in choices and letter == reference.upper()


def boxed(text: str) -> str | None:
    r"""The content of the last \boxed{}; None if there is none or it is not closed."""
    start = text.rfind(_BOX)
    if start < 0:
        return None
    start += len(_BOX)
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return text[start : brace.start()].strip()
    return None


def aime_integer(text: str) -> int | None:
    r"""The integer in the last \boxed{}, or else after the last "Answer:"; None above 999."""
    integers = _BOXED_DIGITS.findall(text) or _ANSWERED_DIGITS.findall(text)
    if not integers:
        return None
    try:
        value = int(integers[-1])
    except ValueError:  # Python parses no integers of more than a few thousand digits.
        return None
    return value if value <= _HIGHEST_OF_AIME else None


def is_integer(value: int | None, reference: str) -> bool:
    """Whether an AIME answer equals the reference, which is parsed as an integer."""
    try:
        return value is not None and value == int(reference)
    except ValueError:
        return False


def programs(text: str) -> list[str]:
    """The content of each closed Python block, in order."""
    return [program.strip() for program in _PYTHON_BLOCK.findall(text)]


def blocks(text: str) -> list[str]:
    """The content of each closed block in any language, in order, without a leading "python" or
    "py"."""
    return [_PYTHON_NAME.sub("", block.strip()) for block in _BLOCK.findall(text)]
