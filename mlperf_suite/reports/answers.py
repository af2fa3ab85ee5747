"""Compares the answers of two accuracy runs to the same samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.results.baseline import answer_scores
from mlperf_suite.results.run_folder import read_object

ANSWERS_JSON, SAMPLES_JSON = "answers.json", "samples.json"
"""In an accuracy run's folder: the text of every answer, and a few answers with input and
reference."""
_MOST_PAIRS = 10


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one sample, and the score of each in percent, None if not known.

    `index`: the sample's index in the QSL.
    """

    index: int
    answers: tuple[str, str]
    scores: tuple[float, float] | None

    @property
    def difference(self) -> float:
        """The difference of the scores, in percentage points; 0 if they are not known."""
        return abs(self.scores[1] - self.scores[0]) if self.scores else 0.0


@dataclass(frozen=True, slots=True)
class AnswersBeside:
    """Two runs' answers. `compared`: the number of samples that both kept an answer to.

    `metric`: the score of `pairs`, empty if none is known. `pairs`: answers that are not
    identical, sorted by score difference, largest first.
    """

    compared: int
    identical: int
    metric: str
    pairs: tuple[Pair, ...]

    @property
    def words(self) -> str:
        """How many answers are identical, in a sentence."""
        return f"{self.identical:,} of {self.compared:,} answers are identical."


def answers_beside(first: Path, other: Path) -> AnswersBeside | None:
    """The answers that both runs kept; None if there are none, or if they are of different data.

    Older suites kept only the first three.
    """
    (data, scores), (other_data, other_scores) = answer_scores(first), answer_scores(other)
    if data != other_data:
        return None
    texts, other_texts = _answers(first), _answers(other)
    metric = next((name for name in scores if name in other_scores), "")
    pairs = []
    for index, (place, answer) in texts.items():
        if index not in other_texts:
            continue
        other_place, other_answer = other_texts[index]
        one = scores.get(metric, {}).get(place)
        two = other_scores.get(metric, {}).get(other_place)
        known = None if one is None or two is None else (one, two)
        pairs.append(Pair(index, (answer, other_answer), known))
    if not pairs:
        return None
    differing = [pair for pair in pairs if pair.answers[0] != pair.answers[1]]
    most = sorted(differing, key=lambda pair: -pair.difference)[:_MOST_PAIRS]
    return AnswersBeside(len(pairs), len(pairs) - len(differing), metric, tuple(most))


def _answers(folder: Path) -> dict[int, tuple[int, str]]:
    """By the sample's index, the answer's position in the data's order and its text."""
    accuracy = folder / "Accuracy"
    found = (read_object(accuracy / ANSWERS_JSON) or {}).get("answers")
    if not isinstance(found, list):
        found = (read_object(accuracy / SAMPLES_JSON) or {}).get("samples")
    answers = {}
    for place, one in enumerate(found if isinstance(found, list) else ()):
        if isinstance(one, dict) and type(one.get("index")) is int:
            answers[one["index"]] = (place, str(one.get("answer", "")))
    return answers
