"""Published data that the repository may not hold."""

from __future__ import annotations

import json

from evidence.from_elsewhere import REAL_MMLU, REAL_NEWS, needs_real_mmlu, needs_real_news
from mlperf_suite.datasets.news import load_news
from mlperf_suite.features.mmlu.mmlu_questions import Mmlu, load_mmlu


@needs_real_news
def test_reads_real_articles() -> None:
    lines = REAL_NEWS.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    items = load_news(str(REAL_NEWS)).items
    assert [(i.input, i.reference) for i in items] == [
        (row["article"], row["highlights"]) for row in rows
    ]


def questions_of(data: Mmlu) -> set[str]:
    return {q.question for split in (data.dev, data.test) for qs in split.values() for q in qs}


@needs_real_mmlu
def test_no_embedded_question_is_one_of_the_published_ones() -> None:
    published = questions_of(load_mmlu(str(REAL_MMLU)))
    assert published
    assert not questions_of(load_mmlu("embedded")) & published
