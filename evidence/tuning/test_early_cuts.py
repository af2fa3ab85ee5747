"""When a trial is cut: what is certain is cut, and what equals the best hardly ever."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlperf_suite.features.tuning.early_stopping import (
    AccuracyCheck,
    Estimate,
    cannot_win,
    full_rate,
)

LEADER = Estimate(math.log(1000.0), 0.02)


@pytest.mark.parametrize(("rate", "cut"), [(1000.0, False), (890.0, False), (800.0, True)])
def test_a_rate_below_the_leaders_interval_cannot_win(rate: float, cut: bool) -> None:
    assert cannot_win(rate, 0.05, LEADER) == cut


def test_more_looks_need_more_distance_and_a_probe_is_scaled_as_the_leaders_was() -> None:
    assert cannot_win(870.0, 0.05, LEADER)
    assert not cannot_win(870.0, 0.05, LEADER, looks=10)
    assert full_rate(90.0, leaders_probe=100.0, leaders_rate=120.0) == pytest.approx(108.0)


def scores(mean: float, runs: int, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Scores in percent as ROUGE's: between 0 and 100, askew."""
    return 100 * np.random.default_rng(1).beta(1.2, 1.2 * (100 / mean - 1), (runs, count))


def test_bad_answers_are_rejected_soon() -> None:
    check = AccuracyCheck(40.0)
    assert check.rejects(list(scores(20.0, 1, 100)[0]))
    assert not check.rejects([0.0] * 39), "too few to say"
    assert check.rejects([0.0] * 40)


def test_a_reference_of_the_same_samples_decides_sooner() -> None:
    before = scores(40.0, 1, 500)[0]
    after = before - np.random.default_rng(2).normal(1.5, 3.0, 500)
    assert not AccuracyCheck(39.6).rejects(after)
    assert AccuracyCheck(39.6, before, reference_mean=40.0).rejects(after)
    assert not AccuracyCheck(39.6, before, reference_mean=40.0).rejects(before)
