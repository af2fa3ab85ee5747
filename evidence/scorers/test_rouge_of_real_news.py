"""ROUGE of the first articles of CNN/DailyMail, beside the official computation.

MLPERF_SUITE_REAL_NEWS names a file of them, in a form that --dataset takes.
"""

from __future__ import annotations

import os

import pytest

from meta_tests.scorers.official_rouge import official
from mlperf_suite.datasets.news import load_news
from mlperf_suite.scorers.rouge import score_rouge

REAL_NEWS = os.environ.get("MLPERF_SUITE_REAL_NEWS", "")


@pytest.mark.skipif(not REAL_NEWS, reason="needs MLPERF_SUITE_REAL_NEWS")
@pytest.mark.parametrize("characters", [90, 700])
def test_equals_the_official_computation_on_real_news(characters: int) -> None:
    items = load_news(REAL_NEWS).items
    for shift in (0, 1):
        # Each article beside its own highlights, and beside another's.
        predictions = [f" {item.input[:characters]}\n" for item in items]
        references = [items[number - shift].reference for number in range(len(items))]
        assert score_rouge(predictions, references).values == official(predictions, references)
