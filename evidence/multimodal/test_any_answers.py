"""Any answer of a benchmark with pictures or sound is scored."""

import json

from hypothesis import given
from hypothesis import strategies as st

from meta_tests.scorers.answers import ANY_TEXT, answer
from mlperf_suite.features.multimodal.qwen3_vl import HierarchicalF1Scorer, category_of, levels_of
from mlperf_suite.features.multimodal.whisper import WordAccuracyScorer, edit_distance, join_words


def product(category: str, **members: object) -> str:
    whole = {"category": category, "brand": "acme", "is_secondhand": False} | members
    return json.dumps(whole)


@given(ANY_TEXT, st.sampled_from([True, "yes", 1, "off", 0.0]), ANY_TEXT, st.booleans())
def test_any_answer_is_scored(
    text: str, is_secondhand: object, reference: str, strips: bool
) -> None:
    category = f"A > {text} > b"
    valid = product(category, is_secondhand=is_secondhand)
    assert category_of(valid) == category
    scorer = HierarchicalF1Scorer(strips=strips)
    assert scorer.score([answer(valid, category)]).values["f1"] == 100
    for of in (text, valid):
        right, given_, wanted = levels_of(of, reference, strips=strips)
        assert 0 <= right <= min(given_, wanted)
        assert 0 <= scorer.score([answer(of, reference)]).values["f1"] <= 100


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), min_size=1, max_size=4))
def test_any_answer_is_scored_and_the_order_does_not_matter(pairs: list[tuple[str, str]]) -> None:
    answers = [answer(*pair) for pair in pairs]
    scores = WordAccuracyScorer().score(answers)
    assert WordAccuracyScorer().score(answers[::-1]) == scores
    assert scores.values.get("word_accuracy", 0.0) <= 100.0


WORDS = st.lists(st.sampled_from(["a", "b", "ab", "aba", "c"]), max_size=8)


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
