"""So many answers that several processes score them."""

from __future__ import annotations

from meta_tests.scorers.answers import answer
from mlperf_suite.scorers.llama3_1_405b import LongContextScorer


def test_many_answers_score_as_few() -> None:
    uuid = "a1b2c3d4-0000-1111-2222-333344445555"
    answers = [answer(text, uuid, "niah_em") for text in (uuid, "none", f"{uuid} and {uuid}")]
    single = LongContextScorer().score(answers)
    repeated = LongContextScorer().score(answers * 100)
    assert repeated.per_answer["exact_match"] == single.per_answer["exact_match"] * 100
