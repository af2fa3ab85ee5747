"""What a scorer is: it takes answers, and says how good they are in figures that have names.

To add one, write a class with these members in a file of its own and name it in the workload.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mlperf_suite.datasets.samples import Sample


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer: its tokens as LoadGen logged them, and their text.

    The text is without special tokens, unless the scorer reads them (`reads_special_tokens`).
    """

    sample: Sample
    token_ids: Sequence[int]
    text: str


@dataclass(frozen=True, slots=True)
class Score:
    """One figure: its name as rules and files use it, and its unit."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Scores:
    """What a scorer makes of answers.

    `per_answer`: by the score's name, the figure of each answer in the order given, in the score's
    unit, None where the score is not of that answer (one part of a mixed data set); a score that
    is no mean over answers has none. `not_judged`: by the name of a figure that
    could not be had here, the reason in a few words ("no sandbox"); it is in no other field.
    """

    scores: tuple[Score, ...]
    per_answer: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict, repr=False)
    not_judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, float]:
        """Each score's value by its name."""
        return {score.name: score.value for score in self.scores}

    @property
    def standard_errors(self) -> dict[str, float]:
        """By score, the standard error of its mean, in its unit."""
        known = {
            name: [value for value in values if value is not None]
            for name, values in self.per_answer.items()
        }
        return {
            name: round(statistics.stdev(values) / len(values) ** 0.5, 4)
            for name, values in known.items()
            if len(values) > 1
        }


class Scorer(Protocol):
    """Scores the answers of one benchmark."""

    @property
    def name(self) -> str:
        """What the scorer is called; its results are in Accuracy/<name>.json."""

    def check(self) -> None:
        """Raise UsageError where something that scoring needs is missing."""

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score the answers, at least one. Raises SuiteError where that cannot be done."""


def obstacle_of(scorer: Scorer, samples: Sequence[Sample]) -> str:
    """Why answers to these samples cannot be scored whole on this machine, in a few words; "" for
    nothing known.

    A scorer that can tell before a run has a method `obstacle` of these samples.
    """
    look = getattr(scorer, "obstacle", None)
    return str(look(samples)) if look else ""


def reads_special_tokens(scorer: Scorer) -> bool:
    """Whether a scorer needs the special tokens in the answers' texts.

    One that does has an attribute of this name that is true.
    """
    return bool(getattr(scorer, "reads_special_tokens", False))
