"""Word accuracy of transcripts: 100 minus the word error rate.

Source: speech2text/accuracy_eval.py, helpers.py and reference_SUT.py of mlcommons/inference. Both
texts are reduced to the characters of `LETTERS` and put through Whisper's normalizer of English.
These official rules look like mistakes but are intended:

- an answer is lowered before other characters are dropped, a reference is not: its capital letters
  are dropped;
- words that only differ by spaces count as right ("any one" for "anyone"), up to three on a side,
  found by one walk over both texts that skips a word of each where they differ.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, cast

from mlperf_suite import IS_CLONE
from mlperf_suite.assets import has_spellings, set_up_spellings, spellings_file
from mlperf_suite.benchmarks.definition import WORD_ACCURACY, WORD_ERROR_RATE
from mlperf_suite.scorers.scorer import GEN_NUM, Answer, Score, Scores, token_figures

LETTERS = frozenset(" abcdefghijklmnopqrstuvwxyz'0123456789$%+-")
"""The characters that the reference passes to LoadGen (`labels` in reference_SUT.py)."""
_MAX_JOINED_WORDS = 3
"""The most words that count as one."""


class Normalizer(Protocol):
    """Turns a text into the form in which words are compared."""

    def __call__(self, text: str) -> str: ...


class WordAccuracyScorer:
    """`word_accuracy` and `word_error_rate` in percent, over all words of the references."""

    name = "word_accuracy"

    def check(self) -> None:
        """Make sure of the normalizer's table of spellings; without a clone it is downloaded.

        Raises UsageError if it is missing.
        """
        if not IS_CLONE and not has_spellings():
            set_up_spellings()
        spellings_file()

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score the answers. An answer's own figure is not given: the rate is over all words."""
        normalize = english_normalizer()
        counts = [word_errors(a.text, a.sample.reference, normalize) for a in answers]
        errors, words = sum(count[0] for count in counts), sum(count[1] for count in counts)
        count = Score(GEN_NUM, len(answers), "answers")
        figures = (count, *token_figures(answers, 1))
        if not words:
            why = "the references have no words"
            return Scores(figures, not_judged={WORD_ACCURACY: why, WORD_ERROR_RATE: why})
        rate = errors / words
        scores = (
            Score(WORD_ACCURACY, (1 - rate) * 100, "%"),
            Score(WORD_ERROR_RATE, rate * 100, "%"),
        )
        return Scores((*scores, *figures))


@lru_cache(maxsize=1)
def english_normalizer() -> Normalizer:
    """Whisper's normalizer of English. Raises UsageError if its table of spellings is missing."""
    table = json.loads(spellings_file().read_text(encoding="utf-8"))
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    return cast(Normalizer, EnglishTextNormalizer(table))


def word_errors(text: str, reference: str, normalize: Normalizer) -> tuple[int, int]:
    """The errors of an answer, and the words of its reference."""
    answer = _words(text.lower().strip(), normalize)
    words = _words(reference, normalize)
    joined, others = join_words(answer, words)
    return edit_distance(joined, others), len(words)


def _words(text: str, normalize: Normalizer) -> list[str]:
    """The words of a text as they are compared; of one that the normalizer refuses, its own.

    The normalizer raises for some constructed numbers, which an answer can hold.
    """
    letters = "".join(filter(LETTERS.__contains__, text))
    try:
        return normalize(letters).split()
    except (ArithmeticError, ValueError):
        return letters.split()


def join_words(answer: Sequence[str], reference: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both texts with words joined that the other has as one word."""
    joined: tuple[list[str], list[str]] = ([], [])
    i = j = 0
    while i < len(answer) and j < len(reference):
        mine, others = _joint(
            answer[i : i + _MAX_JOINED_WORDS], reference[j : j + _MAX_JOINED_WORDS]
        )
        joined[0].append("".join(answer[i : i + mine]))
        joined[1].append("".join(reference[j : j + others]))
        i, j = i + mine, j + others
    return [*joined[0], *answer[i:]], [*joined[1], *reference[j:]]


def _joint(answer: Sequence[str], reference: Sequence[str]) -> tuple[int, int]:
    """How many words of the answer and of the reference, from their beginnings, make the same one;
    one of each if none do."""
    for count in range(1, _MAX_JOINED_WORDS + 1):
        if count <= len(reference) and "".join(reference[:count]) == answer[0]:
            return 1, count
        if count <= len(answer) and "".join(answer[:count]) == reference[0]:
            return count, 1
    return 1, 1


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The least number of words to add, drop or replace (Levenshtein's distance)."""
    import numpy as np

    numbers: dict[str, int] = {}
    columns = np.array([numbers.setdefault(word, len(numbers)) for word in other], dtype=np.int64)
    places = np.arange(len(other) + 1)
    row = places.copy()
    for word in one:
        best = row + 1
        replaced = row[:-1] + (columns != numbers.get(word, -1))
        np.minimum(best[1:], replaced, out=best[1:])
        # Adding words from the left, all at once: the least of best[k] + (j - k) over k <= j.
        row = np.minimum.accumulate(best - places) + places
    return int(row[-1])
