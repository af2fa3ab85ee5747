"""Function calling: the official draw, and scores from verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.errors import SuiteError
from mlperf_suite.features.chats.bfcl_worker import check, drawn
from mlperf_suite.features.chats.function_calls import drawn_samples, scores


def test_the_official_shares_of_subsets() -> None:
    assert [drawn(n, "non_live") for n in (400, 200, 100, 50, 25)] == [248, 124, 62, 31, 25]
    assert [drawn(n, "live") for n in (258, 1053, 16, 24)] == [25, 105, 16, 24]
    assert [drawn(n, "hallucination") for n in (240, 884)] == [24, 88]


def test_scores_weigh_categories_as_officially() -> None:
    subsets = {"a": "simple_python", "b": "simple_java", "c": "multiple", "d": "irrelevance"}
    subsets |= {"e": "live_simple", "f": "live_multiple", "g": "live_multiple"}
    result = scores(subsets, {"a": 1, "b": 0, "c": 1, "e": 1, "f": 0, "g": 1})
    assert result.categories == {"non_live": 75.0, "hallucination": 0.0, "live": 66.67}
    assert (result.overall, result.normalized, result.missing) == (57.14, 47.22, 1)


def test_where_no_call_is_right_any_call_is_wrong() -> None:
    sample: dict[str, Any] = {"subset": "irrelevance", "reference": [], "functions": []}
    assert (check(sample, []), check(sample, [{"function": {}}])) == (1, 0)


def test_without_the_environment_the_message_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="run make bfcl"):
        drawn_samples(tmp_path / "python")
