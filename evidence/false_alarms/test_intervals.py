"""Intervals and words of a difference, counted in many draws: as seldom wrong as they say."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.endpoints.curves import made_curve
from mlperf_suite.features.aggregate.aggregate import interval
from mlperf_suite.features.caching_audit.block_times import LOOKS, MAX_SPEEDUP, interval_of
from mlperf_suite.features.endpoints.curve.curve_area import StepCurve, common_points


@pytest.mark.parametrize("common", [True, False])
def test_of_equal_curves_one_in_twenty_has_words_of_a_difference(common: bool) -> None:
    """Also where whole runs differ as their blocks do, together or each by itself."""
    histories = 60
    wrong = 0
    for seed in range(histories):
        noise = {"noise": 0.03, "between": 1.0, "common": common}
        first, second = (made_curve(**noise, seed=seed + k) for k in (0, 10_000))  # type: ignore[arg-type]
        wrong += any(part.above for part in common_points(first, second).stretches())
    assert wrong <= 0.05 * histories + 3 * np.sqrt(0.05 * 0.95 * histories)


def test_the_interval_of_a_point_is_that_of_a_further_run() -> None:
    """19 of 20 further runs whose noise is that of the blocks are within it."""
    hits = 0
    for seed in range(100):
        curve = made_curve(0.05, seed=seed, blocks=5)
        intervals = StepCurve(curve.measured[:1]).intervals(0)
        assert intervals is not None
        further = curve.points[0].tps_per_user * np.exp(
            np.random.default_rng(seed + 10_000).normal(0, 0.05)
        )
        hits += intervals[0][0] < further < intervals[0][1]
    assert hits >= 86


def test_intervals_of_an_efficiency_hold_the_truth_as_often_as_they_say() -> None:
    generator, hits = random.Random(1), 0
    for _ in range(1000):
        together = [1900 * math.exp(generator.gauss(0, 0.03)) for _ in range(4)]
        alone = [1000 * math.exp(generator.gauss(0, 0.03)) for _ in range(3)]
        low, high, _ = interval(together, alone, 2)
        assert low is not None and high is not None
        hits += low <= 0.95 <= high
    assert 930 <= hits <= 980


def finding_of(pairs: list[tuple[float, float]]) -> str:
    estimate = interval_of(pairs)
    assert estimate is not None
    return estimate.finding


@pytest.mark.parametrize("spread", [0.02, 0.2, 1.0])
def test_at_the_limit_the_caching_audit_errs_as_rarely_as_said(spread: float) -> None:
    """Audits simulated to their end, at the limit itself, where both findings err most easily."""
    chance = random.Random(spread)
    audits, findings = 400, []
    for _ in range(audits):
        pairs: list[tuple[float, float]] = []
        for pair in range(1, LOOKS[-1] + 1):
            pairs.append((math.exp(math.log1p(MAX_SPEEDUP) + chance.gauss(0, spread)), 1.0))
            if pair in LOOKS and finding_of(pairs) != "cannot tell":
                break
        findings.append(finding_of(pairs))
    # 2 of 400 are expected of each at most; 9 come by chance once in 4,000 such tests.
    assert findings.count("caching") < 9
    assert findings.count("no caching") < 9


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
