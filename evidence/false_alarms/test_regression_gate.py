"""How often the regression gate is wrong, counted in many drawn histories of known noise.

perf/regression_gate.py prints the same shares of more histories."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlperf_suite.results.regression import METRICS, Metric, MetricSamples, compare
from perf.regression_gate import CASES, REPEATS, bound, share_of_jobs

TTFT = next(metric for metric in METRICS if metric.name == "ttft_p99")
HISTORIES = 150
ALLOWANCE = 3 * math.sqrt(0.05 * 0.95 / HISTORIES)
"""Three standard deviations of a share counted in so many histories."""


@pytest.mark.parametrize("noise", [0.03, 0.08])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_of_jobs_in_which_nothing_changed_at_most_one_in_twenty_fails(
    case: Any, noise: float
) -> None:
    """All scenarios, metrics and baselines of a job together."""
    share = share_of_jobs(case, noise, (0.0, 0.0), HISTORIES, np.random.default_rng(7))
    assert share <= 0.05 + ALLOWANCE


@pytest.mark.parametrize("case", CASES[1:4], ids=lambda case: case.name)
def test_repeats_find_a_loss_of_10_percent_at_3_percent_noise(case: Any) -> None:
    shared = dataclasses.replace(case, common=True)
    share = share_of_jobs(shared, 0.03, (0.1, 0.1), HISTORIES, np.random.default_rng(7))
    assert share >= 0.95 - ALLOWANCE


def test_what_no_test_could_find_with_one_run() -> None:
    """And more repeats never find less, here and in the gate."""
    everywhere, offline = (0.1, 0.1), (0.1, 0.0)
    assert bound(1, 0.03, everywhere) < 0.95 < bound(2, 0.03, everywhere)
    assert bound(1, 0.03, offline) < 0.8
    shares = [
        share_of_jobs(case, 0.03, offline, HISTORIES, np.random.default_rng(7))
        for case in CASES[: len(REPEATS)]
    ]
    assert shares == sorted(shares)


_VALUES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=5)


@given(st.sampled_from([METRICS[0], TTFT]), _VALUES, _VALUES, st.floats(0, 0.9))
@example(TTFT, [1e-3, 1e6], [1.0], 0.0)
def test_a_regression_is_beyond_the_limit_and_the_noise(
    metric: Metric, then: list[float], now: list[float], limit: float
) -> None:
    change = compare(metric, MetricSamples(tuple(then)), MetricSamples(tuple(now)), limit)
    assert "%" in change.words
    if change.outcome == "regressed":
        assert change.change is not None and change.change < -limit
        assert change.high is not None and change.high < 0
    if change.low is not None:
        assert change.change is not None
        assert change.low <= change.change + 1e-9
