"""So many answers that several processes score them, and one so long that memory must be linear."""

from __future__ import annotations

import tracemalloc

from meta_tests.scorers.answers import answer
from mlperf_suite.scorers.llama3_1_405b import LongContextScorer
from mlperf_suite.scorers.rouge import score_pairs


def test_many_answers_score_as_few() -> None:
    uuid = "a1b2c3d4-0000-1111-2222-333344445555"
    answers = [answer(text, uuid, "niah_em") for text in (uuid, "none", f"{uuid} and {uuid}")]
    single = LongContextScorer().score(answers)
    repeated = LongContextScorer().score(answers * 100)
    assert repeated.per_answer["exact_match"] == single.per_answer["exact_match"] * 100


def test_an_answer_without_end_takes_memory_linear_in_its_length() -> None:
    text = " ".join(map(str, range(6_000)))
    tracemalloc.start()
    try:
        (row,) = score_pairs([(text, "one boat of 7 sank, and 11 did not")], ["rougeL"])
        assert tracemalloc.get_traced_memory()[1] < 200 * len(text)
    finally:
        tracemalloc.stop()
    assert row.measures[0] > 0
