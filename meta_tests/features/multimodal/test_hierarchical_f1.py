"""Qwen3-VL's hierarchical F1, against figures that the official scorers give for these texts."""

import json
from pathlib import Path

import pytest

from meta_tests.scorers.answers import answer
from mlperf_suite.errors import UsageError
from mlperf_suite.features.multimodal.qwen3_vl import HierarchicalF1Scorer, category_of, levels_of
from mlperf_suite.features.multimodal.whisper import (
    WHISPER,
    WordAccuracyScorer,
    english_normalizer,
    word_errors,
)

SCORER = HierarchicalF1Scorer()


def product(category: str, **members: object) -> str:
    whole = {"category": category, "brand": "acme", "is_secondhand": False} | members
    return json.dumps(whole)


LEVELS = [
    ("Apparel > Shoes", "Apparel > Shoes", (2, 2, 2)),
    ("Apparel > Boots > Clogs", "Apparel > Shoes > Clogs", (1, 3, 3)),
    ("Apparel > Shoes > Clogs", "Apparel", (1, 3, 1)),
    ("Apparel >  Shoes ", "Apparel > Shoes", (2, 2, 2)),
    ("Apparel>Shoes", "Apparel > Shoes", (0, 1, 2)),
    ("apparel", "Apparel", (0, 1, 1)),
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


# Word accuracy of transcripts, against figures that the official script gives for these texts
CASES = [
    ("the colour of it", "the color of it", 0, 4),
    ("the boat sank", "The boat sank", 1, 3),
    ("anyone can", "any one can", 0, 3),
    ("twenty one days", "21 days", 0, 2),
    ("i am sure you will not", "i'm sure you won't", 0, 6),
    ("um so the the end", "so the end", 1, 3),
    ("", "three words here", 3, 3),
    ("words", "words from nothing", 2, 3),
    ("words from nothing", "", 3, 0),
    ("any bo dy", "anybody", 0, 1),
    ("a b c d", "abcd", 4, 1),
    ("caf\u00e9 \u65e5\u672c noise", "caf noise", 0, 2),
    ("b a", "a b", 2, 2),
    # A number that the normalizer refuses.
    ("9" * 5000 + " thousand", "a word", 2, 2),
]


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
    # v5.1's reference passes no digits on.
    v5_1 = WHISPER.by_round["v5.1"](WHISPER.workload).scorer  # type: ignore[arg-type]
    assert v5_1.score([answer("21 more days", "more days")]).values["word_error_rate"] == 0
    scores = scorer.score([answer("a word", "")])
    assert scores.not_judged["word_accuracy"] == "the references have no words"
    assert "word_accuracy" not in scores.values


def test_a_missing_table_names_the_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLPERF_SUITE_ASSETS", str(tmp_path))
    with pytest.raises(UsageError, match="table of spellings is missing"):
        WordAccuracyScorer().check()
