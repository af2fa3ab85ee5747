"""Qwen3-VL's hierarchical F1, against figures that the official scorers give for these texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.scorers.answers import ANY_TEXT, answer
from mlperf_suite.features.multimodal.hierarchical_f1 import (
    HierarchicalF1Scorer,
    category_of,
    levels_of,
)

SCORER = HierarchicalF1Scorer()


def product(category: str, **members: object) -> str:
    whole = {"category": category, "brand": "acme", "is_secondhand": False} | members
    return json.dumps(whole)


LEVELS = [
    ("Apparel > Shoes", "Apparel > Shoes", (2, 2, 2)),
    ("Apparel > Boots > Clogs", "Apparel > Shoes > Clogs", (1, 3, 3)),
    ("Shoes", "Apparel > Shoes", (0, 1, 2)),
    ("Apparel > Shoes > Clogs", "Apparel", (1, 3, 1)),
    ("Apparel >  Shoes ", "Apparel > Shoes", (2, 2, 2)),
    ("Apparel>Shoes", "Apparel > Shoes", (0, 1, 2)),
    ("apparel", "Apparel", (0, 1, 1)),
    ("", "Apparel", (0, 1, 1)),
    ("", "", (1, 1, 1)),
]


def test_levels_are_the_official_ones() -> None:
    for category, reference, levels in LEVELS:
        for strips in (False, True):
            assert levels_of(product(category), reference, strips=strips) == levels, category
    # An empty last level counts in v6.0 alone.
    text = product("Apparel > ")
    assert levels_of(text, "Apparel", strips=False) == (1, 2, 1)
    assert levels_of(text, "Apparel", strips=True) == (0, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", "Apparel", "{", '{"category": "Apparel"}', product("A")[:-1]),
        f"```json\n{product('A')}\n```",
        product("A") + product("A"),
        product("A", color="red"),
        product("A", is_secondhand="maybe"),
        product("A", brand=None),
        '{"category": ' + "[" * 100_000,
        product("A", is_secondhand=int("9" * 4000)),
        product("A" * 1_000_001),
        "__import__('os').system('true')",
    ],
)
def test_an_answer_that_is_not_valid_counts_with_the_references_length(text: str) -> None:
    assert category_of(text) is None
    assert levels_of(text, "Apparel > Shoes > Clogs", strips=False) == (0, 3, 3)


def test_f1_is_over_the_levels_of_all_answers() -> None:
    answers = [
        answer(product("Apparel > Shoes"), "Apparel > Shoes"),
        answer(product("Toys"), "Apparel > Shoes > Clogs"),
        answer("broken", "Apparel"),
    ]
    scores = SCORER.score(answers)
    precision, recall = 2 / 4, 2 / 6
    assert scores.values["f1"] == pytest.approx(200 * precision * recall / (precision + recall))
    assert scores.values["unreadable_answers"] == 1
    assert scores.values["gen_num"] == 3
    assert SCORER.score(answers[::-1]) == scores
    assert SCORER.score(answers[1:]).values["f1"] == 0


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
