"""Llama 3.1 405B on long contexts: rougeL, and exact match of needles and of questions.

Source: language/llama3.1-405b/evaluate-accuracy.py. A sample's kind is the metric it is scored by.
These official rules look like mistakes but are intended:

- a niah_em answer is compared with the reference's identifiers character by character: it counts
  how many of the reference's characters occur anywhere in the answer's identifier;
- a qa_em answer that is a part of the reference is right, even an empty one;
- answers and references are split into sentences, one per line, before any comparison.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

from mlperf_suite.errors import DatasetError
from mlperf_suite.scorers.rouge import check_punkt, in_processes, score_pairs
from mlperf_suite.scorers.scorer import (
    EXACT_MATCH,
    GEN_LEN,
    GEN_NUM,
    Answer,
    Score,
    Scores,
    among_all,
    token_figures,
)

ROUGE, NIAH, QA = "rouge", "niah_em", "qa_em"
ROUGE_L = "rougeL"
_UUID = re.compile(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}")
_SPACE = re.compile(r"\s+")


class LongContextScorer:
    """rougeL and exact_match in percent, each over the samples of its kinds; and lengths."""

    name = "long_context"

    def check(self) -> None:
        """Raise UsageError if NLTK's sentence splitter is missing."""
        check_punkt()

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score each answer by its sample's kind. Raises DatasetError for an unknown kind."""
        for place, answer in enumerate(answers):
            if answer.sample.kind not in _KINDS:
                raise DatasetError(
                    f"sample {place}: kind {answer.sample.kind!r} is not known; "
                    f"allowed: {', '.join(_KINDS)}"
                )
        rows = [(a.text, a.sample.reference, a.sample.kind) for a in answers]
        figures = in_processes(score_rows, rows, len(os.sched_getaffinity(0)))
        scores, per_answer, not_judged = [], {}, {}
        for name in (ROUGE_L, EXACT_MATCH):
            places = [place for place, row in enumerate(rows) if _KINDS[row[2]] == name]
            if not places:
                not_judged[name] = f"no sample that has {name} in this run"
                continue
            values = among_all(places, (figures[place][0] for place in places), len(rows))
            scores.append(Score(name, _mean(values), "%"))
            per_answer[name] = values
        lengths = (
            Score(GEN_LEN, sum(characters for _, characters in figures), "characters"),
            Score(GEN_NUM, len(answers), "answers"),
        )
        return Scores((*scores, *lengths, *token_figures(answers, 1)), per_answer, not_judged)


_KINDS: Mapping[str, str] = {ROUGE: ROUGE_L, NIAH: EXACT_MATCH, QA: EXACT_MATCH}
"""The figure that each kind of sample counts towards."""


def score_needle(text: str, reference: str) -> float:
    """The niah_em of an answer, 0 to 100, rounded to two decimals. Both texts are already split."""
    needles, answers = _UUID.findall(reference), _UUID.findall(text)
    if not answers:
        return 0.0
    total = 0.0
    for answer, needle in zip(answers, needles, strict=False):
        lowered = answer.lower()
        total += sum(character.lower() in lowered for character in needle) / len(needle)
    return round(total / len(answers) * 100, 2)


def score_question(text: str, reference: str) -> float:
    """The qa_em of an answer, 0 or 100. Both texts are already split."""
    answer = text.rpartition("Answer: ")[2]
    if answer in reference:
        return 100.0
    plain = _SPACE.sub("", answer).lower()
    entries = (_SPACE.sub("", entry).lower() for entry in reference.split("|"))
    return 100.0 if any(entry in plain for entry in entries) else 0.0


_EXACT: Mapping[str, Callable[[str, str], float]] = {NIAH: score_needle, QA: score_question}
_Row = tuple[str, str, str]
"""An answer's text, its reference, its kind."""


def score_rows(rows: Sequence[_Row]) -> list[tuple[float, int]]:
    """Each row's figure in percent and the length of its split answer in characters, on one
    core."""
    check_punkt()
    pairs = [(text, reference) for text, reference, kind in rows if kind == ROUGE]
    rouge = iter(score_pairs(pairs, [ROUGE_L]))
    scored = []
    for text, reference, kind in rows:
        if kind == ROUGE:
            pair = next(rouge)
            figure = 100 * float(pair.measures[0])
            scored.append((figure, pair.characters))
        else:
            answer = _by_sentences(text)
            scored.append((_EXACT[kind](answer, _by_sentences(reference)), len(answer)))
    return scored


def _by_sentences(text: str) -> str:
    import nltk

    return "\n".join(nltk.sent_tokenize(text.strip()))


def _mean(values: Sequence[float | None]) -> float:
    import numpy as np

    # The official mean is that of pandas over a column with gaps, which adds a zero for each gap:
    # the last digit of numpy's sum depends on the positions.
    return float(np.sum([value or 0.0 for value in values])) / (len(values) - values.count(None))
