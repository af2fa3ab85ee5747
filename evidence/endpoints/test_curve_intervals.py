"""Intervals and differences of curves, in many draws: as seldom wrong as they say."""

from __future__ import annotations

import numpy as np
import pytest

from meta_tests.features.endpoints.curves import made_curve
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
