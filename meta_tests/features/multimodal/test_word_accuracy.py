"""Word accuracy of transcripts, against figures that the official script gives for these texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.scorers.answers import ANY_TEXT, answer
from mlperf_suite.errors import UsageError
from mlperf_suite.features.multimodal.word_accuracy import (
    WordAccuracyScorer,
    edit_distance,
    english_normalizer,
    join_words,
    word_errors,
)

CASES = [
    ("the colour of it", "the color of it", 0, 4),
    ("the boat sank", "The boat sank", 1, 3),
    ("anyone can", "any one can", 0, 3),
    ("twenty one days", "21 days", 0, 2),
    ("i am sure you will not", "i'm sure you won't", 0, 6),
    ("um so the the end", "so the end", 1, 3),
    ("", "three words here", 3, 3),
    ("words from nothing", "", 3, 0),
    ("any bo dy", "anybody", 0, 1),
    ("a b c d", "abcd", 4, 1),
    ("caf\u00e9 \u65e5\u672c noise", "caf noise", 0, 2),
    ("b a", "a b", 2, 2),
    # A number that the normalizer refuses.
    ("9" * 5000 + " thousand", "a word", 2, 2),
]
WORDS = st.lists(st.sampled_from(["a", "b", "ab", "aba", "c"]), max_size=8)


@pytest.mark.parametrize(("text", "reference", "errors", "words"), CASES)
def test_errors_are_the_official_ones(text: str, reference: str, errors: int, words: int) -> None:
    assert word_errors(text, reference, english_normalizer()) == (errors, words)
    own = reference.lower()
    assert word_errors(own, own, english_normalizer()) == (0, words)


def test_the_rate_is_over_the_words_of_all_references() -> None:
    scorer = WordAccuracyScorer()
    scorer.check()
    scores = scorer.score([answer(text, reference) for text, reference, _, _ in CASES])
    errors, words = sum(case[2] for case in CASES), sum(case[3] for case in CASES)
    assert scores.values["word_error_rate"] == errors / words * 100
    assert scores.values["word_accuracy"] == (1 - errors / words) * 100
    assert scores.values["gen_num"] == len(CASES)
    scores = scorer.score([answer("a word", "")])
    assert scores.not_judged["word_accuracy"] == "the references have no words"
    assert "word_accuracy" not in scores.values


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), min_size=1, max_size=4))
def test_any_answer_is_scored_and_the_order_does_not_matter(pairs: list[tuple[str, str]]) -> None:
    answers = [answer(*pair) for pair in pairs]
    scores = WordAccuracyScorer().score(answers)
    assert WordAccuracyScorer().score(answers[::-1]) == scores
    assert scores.values.get("word_accuracy", 0.0) <= 100.0


@given(WORDS, WORDS)
def test_joined_words_keep_their_letters(one: list[str], other: list[str]) -> None:
    joined, others = join_words(one, other)
    assert ("".join(joined), "".join(others)) == ("".join(one), "".join(other))


def _plain_distance(one: list[str], other: list[str]) -> int:
    """By its definition."""
    if not one or not other:
        return len(one) + len(other)
    first, rest = _plain_distance(one[1:], other), _plain_distance(one, other[1:])
    both = _plain_distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(first + 1, rest + 1, both)


SHORT = st.lists(st.sampled_from("abc"), max_size=5)


@given(SHORT, SHORT)
def test_the_distance_is_levenshteins(one: list[str], other: list[str]) -> None:
    assert edit_distance(one, other) == _plain_distance(one, other)


def test_a_missing_table_names_the_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLPERF_SUITE_ASSETS", str(tmp_path))
    with pytest.raises(UsageError, match="table of spellings is missing"):
        WordAccuracyScorer().check()
