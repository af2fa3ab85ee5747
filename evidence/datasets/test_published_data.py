"""Published data that the repository may not hold.

MLPERF_SUITE_REAL_NEWS names a .jsonl file of CNN/DailyMail's rows, MLPERF_SUITE_REAL_MMLU a folder
of MMLU's questions.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mlperf_suite.datasets.mmlu_questions import Mmlu, load_mmlu
from mlperf_suite.datasets.news import load_news

REAL_NEWS = os.environ.get("MLPERF_SUITE_REAL_NEWS", "")
REAL_MMLU = os.environ.get("MLPERF_SUITE_REAL_MMLU", "")


@pytest.mark.skipif(not REAL_NEWS, reason="needs MLPERF_SUITE_REAL_NEWS")
def test_reads_real_articles() -> None:
    lines = Path(REAL_NEWS).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    items = load_news(REAL_NEWS).items
    assert [(i.input, i.reference) for i in items] == [
        (row["article"], row["highlights"]) for row in rows
    ]


def questions_of(data: Mmlu) -> set[str]:
    return {q.question for split in (data.dev, data.test) for qs in split.values() for q in qs}


@pytest.mark.skipif(not REAL_MMLU, reason="needs MLPERF_SUITE_REAL_MMLU")
def test_no_embedded_question_is_one_of_the_published_ones() -> None:
    published = questions_of(load_mmlu(REAL_MMLU))
    assert published
    assert not questions_of(load_mmlu("embedded")) & published
