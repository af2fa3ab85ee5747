"""Published articles that the repository may not hold."""

from __future__ import annotations

import json

from evidence.from_elsewhere import REAL_NEWS, needs_real_news
from mlperf_suite.datasets.news import load_news


@needs_real_news
def test_reads_real_articles() -> None:
    lines = REAL_NEWS.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    items = load_news(str(REAL_NEWS)).items
    assert [(i.input, i.reference) for i in items] == [
        (row["article"], row["highlights"]) for row in rows
    ]
