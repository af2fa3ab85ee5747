"""ROUGE against a plain restatement of the official computation (llama3.1-8b/evaluation.py)."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.scorers.answers import PAIRS, answer
from meta_tests.scorers.official_rouge import official
from meta_tests.scorers.official_rouge_pairs import official_pairs
from mlperf_suite.datasets.news import load_news
from mlperf_suite.scorers import rouge
from mlperf_suite.scorers.rouge import (
    ROUGE_NAMES,
    OpenOrcaScorer,
    RougeScorer,
    score_pairs,
    score_rouge,
)

WORDS = ["boat", "boats", "harbour", "sank", "sinking", "Friday", "Dr.", "the", "$3.5m", "said."]


def leads(source: str, characters: int) -> tuple[list[str], list[str]]:
    """Each article's beginning as the prediction (cut inside a word), its highlights beside it."""
    items = load_news(source).items
    return [f" {i.input[:characters]}\n" for i in items], [i.reference for i in items]


def test_equals_the_official_computation_on_the_embedded_news() -> None:
    predictions, references = leads("embedded", 400)
    scores = score_rouge(predictions, references).values
    assert scores == official(predictions, references)
    in_order = [scores[name] for name in ("rouge2", "rougeL", "rougeLsum", "rouge1")]
    assert in_order == sorted(in_order) and in_order[0] > 5 and in_order[-1] < 80


def test_several_processes_score_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rouge, "_ROWS_PER_TASK", 20)
    predictions, references = leads("embedded", 300)
    pairs = list(itertools.product(predictions[:5], references[:12]))
    random.Random(1).shuffle(pairs)
    predictions, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    in_two = score_rouge(predictions, references, processes=2)
    assert in_two == score_rouge(predictions, references, processes=1)
    assert in_two.values == official(predictions, references)
    assert in_two.values["gen_num"] == 60


def test_gen_len_counts_characters_after_the_split_into_sentences() -> None:
    # Two spaces between sentences become one line break, and the ends are stripped.
    scores = score_rouge(["  One boat sank.  Two floated. \n"], ["One boat sank."]).values
    assert scores["gen_len"] == len("One boat sank.\nTwo floated.")
    assert scores["gen_num"] == 1


def test_rouge_lsum_takes_sentences_as_lines() -> None:
    """Its union over sentences does not mind their order; rougeL does."""
    first, second = "The boats sank near the harbour.", "Rain fell over every village."
    scores = score_rouge([f"{first} {second}"], [f"{second} {first}"]).values
    assert scores["rougeLsum"] == 100
    assert scores["rougeL"] < 60


def test_an_empty_prediction_scores_nothing_and_counts() -> None:
    scores = score_rouge(["", "One boat sank."], ["One boat sank."] * 2)
    assert scores.values == {**dict.fromkeys(ROUGE_NAMES, 50), "gen_len": 14, "gen_num": 2}
    assert scores.per_answer["rouge1"] == (0, 100)
    # Of 0 and 100: the standard deviation over the root of two.
    assert scores.standard_errors == dict.fromkeys(ROUGE_NAMES, 50)


def test_the_scorer_compares_each_answer_with_its_own_sample() -> None:
    texts, references = leads("embedded", 200)
    answers = [answer(*pair) for pair in zip(texts[:5], references[:5], strict=True)]
    scores = RougeScorer().score(answers)
    assert scores == score_rouge(texts[:5], references[:5])
    assert {score.name: score.unit for score in scores.scores} == {
        **dict.fromkeys(ROUGE_NAMES, "%"),
        "gen_len": "characters",
        "gen_num": "answers",
    }


_TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


@given(pairs=st.lists(st.tuples(_TEXTS, _TEXTS), min_size=1, max_size=6), data=st.data())
def test_any_pairs_score_as_the_official_way_and_in_any_order(
    pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(pairs))
    scores = score_rouge([p for p, _ in pairs], [r for _, r in pairs]).values
    again = score_rouge([p for p, _ in shuffled], [r for _, r in shuffled]).values
    assert scores == official([p for p, _ in pairs], [r for _, r in pairs])
    # The last digit may turn with the order in which floats are added.
    assert scores == pytest.approx(again, abs=1.01e-4)


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


@given(pair=st.tuples(_REPEATING, _REPEATING))
def test_of_equally_long_subsequences_the_same_is_taken(pair: tuple[str, str]) -> None:
    assert score_pairs([pair]) == official_pairs([pair])


def test_pairs_of_whole_texts_score_as_the_official_way_to_the_last_bit() -> None:
    texts, references = leads("embedded", 900)
    unrelated = random.Random(3).sample(references, len(references))
    pairs = list(zip(texts, references, strict=True))[:10]
    pairs += list(zip(texts, unrelated, strict=True))[:5]
    pairs += list(itertools.pairwise(texts))[:3]
    pairs.append(
        ("Ships of Łódź. Ça va? 船が沈んだ。 boat_2", "İstanbul. Ça va? boat 2 \u212aelvin.")
    )
    assert score_pairs(pairs) == official_pairs(pairs)


@settings(max_examples=40)
@given(
    pair=st.tuples(_REPEATING | _ANY, _REPEATING | _ANY),
    names=st.lists(st.sampled_from(ROUGE_NAMES), min_size=1, max_size=4, unique=True),
)
def test_chosen_measures_are_those_of_all_in_the_order_asked_for(
    pair: tuple[str, str], names: list[str]
) -> None:
    (full,) = score_pairs([pair])
    (part,) = score_pairs([pair], names)
    assert part.measures == tuple(full.measures[ROUGE_NAMES.index(name)] for name in names)
    assert part.characters == full.characters


def test_a_measure_of_no_such_name_is_refused() -> None:
    with pytest.raises(
        ValueError, match="rouge3: must be one of rouge1, rouge2, rougeL, rougeLsum"
    ):
        score_pairs([("a", "b")], ["rougeL", "rouge3"])


@pytest.mark.parametrize(
    ("predictions", "references"), [(["a"], []), (["a"], ["b", "c"]), ([], [])]
)
def test_sides_of_different_length_are_refused(
    predictions: list[str], references: list[str]
) -> None:
    with pytest.raises(ValueError, match=f"{len(predictions)} predictions for {len(references)}"):
        score_rouge(predictions, references)


def test_without_punkt_it_is_a_lookup_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk

    monkeypatch.setenv("MLPERF_SUITE_ASSETS", str(tmp_path))
    monkeypatch.setattr(nltk.data, "path", [])
    nltk.tokenize._get_punkt_tokenizer.cache_clear()
    with pytest.raises(LookupError):
        score_rouge(["a"], ["b"])


def test_open_orcas_figures_are_the_official_ones() -> None:
    """Those that the official script printed for these texts."""
    scorer = OpenOrcaScorer()
    scorer.check()
    scores = scorer.score([answer(*pair) for pair in PAIRS])
    assert scores.values == {
        "rouge1": 41.6667,
        "rouge2": 18.8571,
        "rougeL": 41.6667,
        "rougeLsum": 41.6667,
        "gen_len": 83,
        "gen_num": 5,
        "gen_tok_len": 85,
        "tokens_per_sample": 17.0,
    }
    assert scores.per_answer["rouge1"][1:3] == (100, 0)


def test_tokens_per_sample_has_one_decimal() -> None:
    answers = [answer("abc", "x"), answer("ab", "x"), answer("ab", "x")]
    assert OpenOrcaScorer().score(answers).values["tokens_per_sample"] == 2.3


def test_an_answer_without_end_takes_memory_linear_in_its_length() -> None:
    text = " ".join(map(str, range(6_000)))
    tracemalloc.start()
    try:
        (row,) = score_pairs([(text, "one boat of 7 sank, and 11 did not")], ["rougeL"])
        assert tracemalloc.get_traced_memory()[1] < 200 * len(text)
    finally:
        tracemalloc.stop()
    assert row.measures[0] > 0
