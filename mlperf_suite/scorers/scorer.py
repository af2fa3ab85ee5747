"""The scorer protocol: a scorer takes answers and returns named figures. And the figures that
several scorers share.

To add one, write a class with these members in its own file and name it in the workload.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mlperf_suite.datasets.samples import Sample

EXACT_MATCH, TOKENS_PER_SAMPLE = "exact_match", "tokens_per_sample"
GEN_LEN, GEN_NUM, GEN_TOK_LEN = "gen_len", "gen_num", "gen_tok_len"


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer: its tokens as LoadGen logged them, and their text.

    The text has no special tokens unless the scorer reads them (`reads_special_tokens`).
    """

    sample: Sample
    token_ids: Sequence[int]
    text: str


@dataclass(frozen=True, slots=True)
class Score:
    """One figure: its name as used in rules and files, and its unit."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Scores:
    """The figures that a scorer computes from answers.

    `per_answer`: by the score's name, the figure of each answer in the order given, in the score's
    unit; None if the score does not apply to that answer (one part of a mixed data set). A score
    that is not a mean over answers has no entry. `not_judged`: by the name of a figure that could
    not be computed here, the reason in a few words ("no sandbox"); it is in no other field.
    """

    scores: tuple[Score, ...]
    per_answer: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict, repr=False)
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, float]:
        return {score.name: score.value for score in self.scores}

    @property
    def standard_errors(self) -> dict[str, float]:
        """By score, the standard error of its mean, in its unit."""
        figures = {
            name: [value for value in values if value is not None]
            for name, values in self.per_answer.items()
        }
        return {
            name: round(statistics.stdev(values) / len(values) ** 0.5, 4)
            for name, values in figures.items()
            if len(values) > 1
        }


class Scorer(Protocol):
    """Scores the answers of one benchmark."""

    @property
    def name(self) -> str:
        """The scorer's name; its results are in Accuracy/<name>.json."""

    def check(self) -> None:
        """Raise UsageError if something that scoring needs is missing."""

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score the answers, at least one. Raises SuiteError if that is not possible."""


def obstacle_of(judge: object, samples: Sequence[Sample]) -> str:
    """Why answers to these samples cannot be judged completely on this machine, in a few words; ""
    if no reason is known.

    `judge`: a scorer, or a grader of its answers' programs. A scorer that knows before a run has a
    method `obstacle` that takes the samples.
    """
    look = getattr(judge, "obstacle", None)
    return str(look(samples)) if look and samples else ""


def reads_special_tokens(scorer: Scorer) -> bool:
    """Whether a scorer needs the special tokens in the answers' texts.

    Such a scorer has a true attribute of this name.
    """
    return bool(getattr(scorer, "reads_special_tokens", False))


def token_figures(answers: Sequence[Answer], digits: int | None) -> tuple[Score, Score]:
    """Total and mean number of tokens as logged; the mean is rounded to `digits` decimals, if
    any."""
    tokens = sum(len(answer.token_ids) for answer in answers)
    mean = tokens / len(answers)
    return (
        Score(GEN_TOK_LEN, tokens, "tokens"),
        Score(TOKENS_PER_SAMPLE, mean if digits is None else round(mean, digits), "tokens"),
    )


def percentages(right: Iterable[bool]) -> tuple[float, ...]:
    """100 for each right answer, 0 for each wrong one."""
    return tuple(100.0 if is_right else 0.0 for is_right in right)


def among_all(
    places: Iterable[int], values: Iterable[float], answers: int
) -> tuple[float | None, ...]:
    """Figures of some answers, placed in the order of all answers; None for the others.

    `places`: the indices of the values' answers. `answers`: how many there are in all.
    """
    of_place = dict(zip(places, values, strict=True))
    return tuple(of_place.get(place) for place in range(answers))
