"""ROUGE of texts of any characters and of odd forms, to the last bit as rouge-score gives it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.scorers.official_rouge import official_pairs
from mlperf_suite.scorers.rouge import score_pairs

WORDS = ["boat", "boats", "harbour", "sank", "sinking", "Friday", "Dr.", "the", "$3.5m", "said."]
# Few words, so that they repeat and many longest common subsequences are equally long.
_REPEATING = st.lists(
    st.lists(st.sampled_from(["on", "of", "Boats", "boat", "sink"]), min_size=1, max_size=9).map(
        lambda words: " ".join(words).capitalize()
    ),
    max_size=6,
).flatmap(lambda parts: st.sampled_from([". ", ".\n", "\n"]).map(lambda end: end.join(parts)))
_ANY = st.text(max_size=60) | st.text(
    "aAbB.?!\"' \n\t\u2028\u0130\u03a3\u017f\u212a-0", max_size=60
)


@settings(max_examples=300)
@given(pair=st.tuples(_REPEATING, _REPEATING))
def test_of_equally_long_subsequences_the_same_is_taken(pair: tuple[str, str]) -> None:
    assert score_pairs([pair]) == official_pairs([pair])


@settings(max_examples=200)
@given(pair=st.tuples(_ANY, _ANY))
def test_any_characters_score_as_the_official_way(pair: tuple[str, str]) -> None:
    assert score_pairs([pair]) == official_pairs([pair])


_LINE = " ".join(random.Random(7).choices([*WORDS, "1,000", "U.S.", "Café", "of", "a"], k=700))


@pytest.mark.parametrize(
    "pair",
    [
        ("", ""),
        (" \n ", "One boat."),
        ("... !? --", "?!"),
        ("... !? --", "One boat."),
        (_LINE, _LINE[500:3000]),
        (_LINE.replace(" boats", ". Boats"), _LINE[::-1]),
        ("boat " * 900, "boat " * 20 + "sank. " * 3),
        (
            "Ships of Łódź. «Ça va?» Σίσυφος. ΟΔΟΣ. 船が沈んだ。",
            "İstanbul. Ça va? 船が沈んだ。 \u212aelvin.",
        ),
        ("a" * 5000 + "ing. " + "y" * 300, "a" * 5000 + "ed. " + "y" * 300),
    ],
    ids=range(9),
)
def test_odd_texts_score_as_the_official_way(pair: tuple[str, str]) -> None:
    there_and_back = [pair, pair[::-1]]
    assert score_pairs(there_and_back) == official_pairs(there_and_back)
