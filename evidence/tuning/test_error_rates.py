"""How often the search and its cuts err, over thousands of drawn runs."""

from __future__ import annotations

import math

import numpy as np

from mlperf_suite.features.tuning.early_stopping import (
    WRONG_CUT,
    WRONG_REJECTION,
    AccuracyCheck,
    Estimate,
    cannot_win,
)
from mlperf_suite.features.tuning.search import TuningSearch
from mlperf_suite.features.tuning.tuning_result import PAIRS, gain_of
from perf.simulated_engines import TRIALS, equal_settings, serving_engine

LEADER = Estimate(math.log(1000.0), 0.02)


def test_equals_of_the_leader_are_cut_as_rarely_as_said() -> None:
    source = np.random.default_rng(0)
    looks, runs = 5, 4000
    # The rate so far, after each fifth of a run: the mean of the parts.
    parts = source.normal(0, 0.05 * math.sqrt(looks), (runs, looks)).cumsum(axis=1)
    ends = np.arange(1, looks + 1)
    errors = 0.05 * np.sqrt(looks / ends)
    leaders = source.normal(math.log(1000.0), LEADER.deviation, runs)
    cut = [
        any(
            cannot_win(1000 * math.exp(log), error, Estimate(leader, LEADER.deviation), looks)
            for log, error in zip(logs / ends, errors, strict=True)
        )
        for logs, leader in zip(parts, leaders, strict=True)
    ]
    assert 0 < sum(cut) <= WRONG_CUT * runs


def scores(mean: float, runs: int, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Scores in percent as ROUGE's: between 0 and 100, askew."""
    return 100 * np.random.default_rng(1).beta(1.2, 1.2 * (100 / mean - 1), (runs, count))


def test_settings_that_just_meet_the_gate_are_rejected_as_rarely_as_said() -> None:
    runs = scores(40.0, 600, 1000)
    check = AccuracyCheck(40.0)
    rejected = [any(check.rejects(row[:n]) for n in range(40, 1001, 40)) for row in runs]
    assert sum(rejected) <= WRONG_REJECTION * len(runs)


def test_equal_settings_are_no_better_than_the_default_in_95_of_100() -> None:
    engine = equal_settings(1)
    claims = [
        gain_of([engine.noise() for _ in range(PAIRS)], [engine.noise() for _ in range(PAIRS)])
        for _ in range(4000)
    ]
    assert sum(claim.is_better for claim in claims) <= 0.05 * len(claims)


def test_a_search_on_an_engine_like_vllm_ends_near_its_optimum() -> None:
    engine = serving_engine(0)
    search = TuningSearch(engine.space, 0)
    for number in range(TRIALS):
        search.add(engine.measure(search.following(number / TRIALS)))
    share = engine.share(search.best())
    assert share and share > 0.95
