"""Intervals of the efficiency of nodes, in many draws: as seldom wrong as they say."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.features.aggregate.aggregate import interval


def test_intervals_of_an_efficiency_hold_the_truth_as_often_as_they_say() -> None:
    generator, hits = random.Random(1), 0
    for _ in range(1000):
        together = [1900 * math.exp(generator.gauss(0, 0.03)) for _ in range(4)]
        alone = [1000 * math.exp(generator.gauss(0, 0.03)) for _ in range(3)]
        low, high, _ = interval(together, alone, 2)
        assert low is not None and high is not None
        hits += low <= 0.95 <= high
    assert 930 <= hits <= 980


_RATES = st.lists(st.floats(1, 1e6), min_size=1, max_size=5)


@given(_RATES, _RATES, st.integers(2, 64))
def test_an_interval_of_nodes_holds_their_efficiency(
    together: list[float], alone: list[float], nodes: int
) -> None:
    low, high, _ = interval(together, alone, nodes)
    if len(together) == len(alone) == 1:
        assert (low, high) == (None, None)
        return
    assert low is not None and high is not None
    means = [math.fsum(map(math.log, side)) / len(side) for side in (together, alone)]
    assert low <= math.exp(means[0] - means[1]) / nodes * (1 + 1e-9)
    assert high >= min(math.exp(means[0] - means[1]) / nodes, math.exp(50)) * (1 - 1e-9)
