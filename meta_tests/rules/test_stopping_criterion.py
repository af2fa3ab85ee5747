"""How many queries early stopping needs, and how many of them may be over a limit."""

from __future__ import annotations

import pytest

from mlperf_suite.rules.stopping_criterion import discarded_queries, queries_needed


@pytest.mark.parametrize(
    ("over", "percentile", "queries"), [(0, 0.99, 459), (1, 0.99, 662), (1, 0.9, 64)]
)
def test_early_stopping_needs_loadgens_number(over: int, percentile: float, queries: int) -> None:
    """The numbers that LoadGen 5.0 to 6.0 writes into its logs."""
    assert queries_needed(over, percentile) == queries


@pytest.mark.parametrize("percentile", [0.5, 0.9, 0.99, 0.999])
def test_early_stopping_discards_as_many_as_its_queries_allow(percentile: float) -> None:
    least = queries_needed(1, percentile)
    for queries in (1, 2, least - 1, least, least + 1, 1000, 14_368, 1_738_404):
        discarded = discarded_queries(queries, percentile)
        assert discarded == 0 or queries_needed(discarded, percentile) <= queries
        assert queries_needed(discarded + 1, percentile) > queries
    # As in public logs.
    assert [discarded_queries(count, 0.9) for count in (100, 5000, 10_000)] == [3, 450, 930]
