"""ROUGE against a plain restatement of the official computation (llama3.1-8b/evaluation.py)."""

import itertools
import random
from pathlib import Path

import pytest

from meta_tests.scorers.answers import PAIRS, answer
from meta_tests.scorers.official_rouge import official, official_pairs
from mlperf_suite.datasets.news import load_news
from mlperf_suite.scorers import rouge
from mlperf_suite.scorers.rouge import (
    ROUGE_NAMES,
    OpenOrcaScorer,
    RougeScorer,
    score_pairs,
    score_rouge,
)


def leads(source: str, characters: int) -> tuple[list[str], list[str]]:
    """Each article's beginning as the prediction (cut inside a word), its highlights beside it."""
    items = load_news(source).items
    return [f" {i.input[:characters]}\n" for i in items], [i.reference for i in items]


def test_several_processes_score_as_officially(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rouge, "_ROWS_PER_TASK", 20)
    predictions, references = leads("embedded", 300)
    pairs = list(itertools.product(predictions[:5], references[:12]))
    random.Random(1).shuffle(pairs)
    predictions, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    in_two = score_rouge(predictions, references, processes=2)
    assert in_two.values == official(predictions, references)
    answers = [answer(*pair) for pair in pairs]
    assert RougeScorer().score(answers) == in_two


def test_pairs_score_as_the_official_way_to_the_last_bit() -> None:
    texts, references = leads("embedded", 900)
    unrelated = random.Random(3).sample(references, len(references))
    pairs = list(zip(texts, references, strict=True))[:10]
    pairs += list(zip(texts, unrelated, strict=True))[:5]
    pairs += list(itertools.pairwise(texts))[:3]
    pairs.append(
        ("Ships of Łódź. Ça va? 船が沈んだ。 boat_2", "İstanbul. Ça va? boat 2 \u212aelvin.")
    )
    # Few words, so that they repeat and many longest common subsequences are equally long.
    draw = random.Random(5)
    for _ in range(60):
        words = [
            draw.choices(["on", "of", "Boats", "boat", "runs", "run", ".\n"], k=20) for _ in "ab"
        ]
        pairs.append((" ".join(words[0]), " ".join(words[1])))
    scored = score_pairs(pairs)
    assert scored == official_pairs(pairs)
    for names in (["rougeL", "rouge1"], ["rougeLsum"], ["rouge2", "rougeLsum", "rougeL"]):
        for part, full in zip(score_pairs(pairs, names), scored, strict=True):
            assert part.measures == tuple(full.measures[ROUGE_NAMES.index(of)] for of in names)
            assert part.characters == full.characters


def test_sentences_count_as_lines_and_an_empty_prediction_scores_nothing() -> None:
    # Two spaces between sentences become one line break, and the ends are stripped.
    scores = score_rouge(["  One boat sank.  Two floated. \n"], ["One boat sank."]).values
    assert scores["gen_len"] == len("One boat sank.\nTwo floated.")
    # Its union over sentences does not mind their order; rougeL does.
    first, second = "The boats sank near the harbour.", "Rain fell over every village."
    scores = score_rouge([f"{first} {second}"], [f"{second} {first}"]).values
    assert scores["rougeLsum"] == 100
    assert scores["rougeL"] < 60
    empty = score_rouge(["", "One boat sank."], ["One boat sank."] * 2)
    assert empty.values == {**dict.fromkeys(ROUGE_NAMES, 50), "gen_len": 14, "gen_num": 2}
    assert empty.per_answer["rouge1"] == (0, 100)
    # Of 0 and 100: the standard deviation over the root of two.
    assert empty.standard_errors == dict.fromkeys(ROUGE_NAMES, 50)


def test_what_cannot_be_compared_is_refused() -> None:
    for predictions, references in ((["a"], []), (["a"], ["b", "c"]), ([], [])):
        sides = f"{len(predictions)} predictions for {len(references)}"
        with pytest.raises(ValueError, match=sides):
            score_rouge(predictions, references)
    with pytest.raises(ValueError, match="rouge3: must be one of rouge1, rouge2, rougeL"):
        score_pairs([("a", "b")], ["rougeL", "rouge3"])


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
    three = [answer("abc", "x"), answer("ab", "x"), answer("ab", "x")]
    assert scorer.score(three).values["tokens_per_sample"] == 2.3
