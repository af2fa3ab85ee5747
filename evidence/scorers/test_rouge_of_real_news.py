"""ROUGE of the first articles of CNN/DailyMail, beside the official computation."""

from __future__ import annotations

import pytest

from evidence.from_elsewhere import REAL_NEWS, needs_real_news
from meta_tests.scorers.official_rouge import official
from mlperf_suite.datasets.news import load_news
from mlperf_suite.scorers.rouge import score_rouge


@needs_real_news
@pytest.mark.parametrize("characters", [90, 700])
def test_equals_the_official_computation_on_real_news(characters: int) -> None:
    items = load_news(str(REAL_NEWS)).items
    for shift in (0, 1):
        # Each article beside its own highlights, and beside another's.
        predictions = [f" {item.input[:characters]}\n" for item in items]
        references = [items[number - shift].reference for number in range(len(items))]
        assert score_rouge(predictions, references).values == official(predictions, references)
