"""Llama 3.1 405B's scores, against figures that the official script printed for these texts."""

import pytest
from hypothesis import given

from meta_tests.scorers.answers import ANY_TEXT, PAIRS, answer
from mlperf_suite.errors import DatasetError
from mlperf_suite.scorers.llama3_1_405b import LongContextScorer

UUID = "a1b2c3d4-0000-1111-2222-333344445555"
NEEDLES = [
    (UUID.upper(), UUID, 100.0),
    ("00000000-1111-2222-3333-444455556666.", UUID, 88.89),
    (f"{UUID} and 99999999-9999-9999-9999-999999999999", UUID, 50.0),
    ("none", UUID, 0.0),
    (UUID, "no identifier", 0.0),
    (
        "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
        "aaaabbbb-1111-cccc-2222-ffffffffffff, aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
        44.44,
    ),
]
QUESTIONS = [
    ("Answer: Paris", "Paris|City of Paris", 100.0),
    ("Answer: par is, I think", "Paris", 100.0),
    *(("Answer: London. Answer: Paris", "Paris", 100.0), ("It is Paris", "Paris", 100.0)),
    *(("", "Paris", 100.0), ("ari", "Paris", 100.0), ("Rome", "Paris", 0.0)),
    *(("Rome", "Paris|", 100.0), ("Answer:Rome", "Paris", 0.0)),
    *(("Paris was it. Answer: Rome", "Paris", 0.0), ("cityof\nparis", "City of Paris", 100.0)),
    *(("Yes. No.", "yes.\n\nno.", 100.0), ("Par. is", "Par.\nIs|x", 100.0)),
]
SCORER = LongContextScorer()


@pytest.mark.parametrize(
    ("kind", "text", "reference", "score"),
    [("niah_em", *row) for row in NEEDLES] + [("qa_em", *row) for row in QUESTIONS],
)
def test_exact_match_is_the_official_one(
    kind: str, text: str, reference: str, score: float
) -> None:
    scores = SCORER.score([answer(text, reference, kind)])
    assert scores.values["exact_match"] == score
    assert scores.not_judged == {"rougeL": "no sample that has rougeL in this run"}


@given(text=ANY_TEXT)
def test_any_text_is_scored(text: str) -> None:
    scores = SCORER.score([answer(text, "7. b|c", kind) for kind in ("rouge", "niah_em", "qa_em")])
    assert scores.not_judged == {}
    assert all(score.unit != "%" or 0 <= score.value <= 100 for score in scores.scores)


def test_each_figure_is_the_mean_over_its_kinds() -> None:
    SCORER.check()
    with pytest.raises(DatasetError, match="allowed: rouge, niah_em, qa_em"):
        SCORER.score([answer("a", "b", "bleu")])
    answers = [
        *(answer(*row, "rouge") for row in PAIRS),
        *(answer(*row[:2], "niah_em") for row in NEEDLES),
        *(answer(*row[:2], "qa_em") for row in QUESTIONS),
    ]
    scores = SCORER.score(answers)
    assert scores.values == {
        "rougeL": 41.666666666666664,
        "exact_match": 67.54368421052631,
        "gen_len": 460,
        "gen_num": 24,
        "gen_tok_len": 462,
        "tokens_per_sample": 19.2,
    }
    assert scores.per_answer["rougeL"][:3] == (25, 100, 0)
    assert scores.per_answer["rougeL"][5:] == (None,) * 19
    assert scores.per_answer["exact_match"][4:6] == (None, 100)
