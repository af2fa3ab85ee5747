"""OpenOrca's scores, against figures that the official script printed for these texts."""

from __future__ import annotations

from meta_tests.scorers.answers import answer
from mlperf_suite.scorers.rouge import OpenOrcaScorer

PAIRS = [
    ("The boat sank in the harbour. Nobody was hurt.", "The boats were sinking. All were saved."),
    (" Yes.\n", "Yes."),
    ("", "An answer."),
    ("Dr. Smith paid $3.5m for it", "Dr. Smith paid $3.5m."),
    ("船が沈んだ。", "The ship sank."),
]


def test_the_figures_are_the_official_ones() -> None:
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
