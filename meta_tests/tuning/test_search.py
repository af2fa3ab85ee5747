"""The search and the claim on a simulated engine: 10,000 settings, 5% noise, a known optimum."""

from __future__ import annotations

import math
import random

import pytest

from mlperf_suite.tuning.claim import PAIRS, Gain, gain_of
from mlperf_suite.tuning.search import Sampler, TuningSearch
from mlperf_suite.tuning.space import Settings, Trial

NOISE = 0.05
TRIALS = 60
WEIGHTS = {"batch": 0.06, "tokens": 0.03, "block": 0.015, "threads": 0.008}
SPACE = {name: tuple(range(10)) for name in WEIGHTS}


class SimulatedEngine:
    """Its rate falls with the distance of each setting from an optimum, by a weight for each."""

    def __init__(self, seed: int, is_flat: bool = False) -> None:
        self.random = random.Random(seed)
        self.best = {name: self.random.randrange(10) for name in SPACE}
        self._weights = dict.fromkeys(WEIGHTS, 0.0) if is_flat else WEIGHTS

    def share(self, settings: Settings) -> float:
        """The rate without noise, as a share of the optimum's."""
        loss = sum(
            weight * abs(int(settings[name] or 0) - self.best[name]) ** 1.3
            for name, weight in self._weights.items()
        )
        return math.exp(-loss)

    def measure(self, settings: Settings) -> Trial:
        return Trial(settings, 1000 * self.share(settings) * self.noise(), NOISE)

    def noise(self) -> float:
        return math.exp(self.random.gauss(0, NOISE))


def candidate(engine: SimulatedEngine, seed: int, sampler: Sampler) -> Settings:
    search = TuningSearch(SPACE, seed, sampler)
    for number in range(TRIALS):
        search.add(engine.measure(search.following(number / TRIALS)))
    return dict(search.candidates()[0])


def searches(sampler: Sampler) -> list[float]:
    engines = [SimulatedEngine(seed) for seed in range(10)]
    return [engine.share(candidate(engine, seed, sampler)) for seed, engine in enumerate(engines)]


def test_comes_nearer_to_the_optimum_than_random_search_in_the_same_budget() -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("torch")
    shares, random_shares = searches("gp"), searches("random")
    assert sum(shares) > sum(random_shares)
    assert sorted(shares)[5] > 0.95, shares


def test_equal_settings_are_no_better_than_the_default_in_95_of_100() -> None:
    engine = SimulatedEngine(1, is_flat=True)
    claims = [
        gain_of([engine.noise() for _ in range(PAIRS)], [engine.noise() for _ in range(PAIRS)])
        for _ in range(4000)
    ]
    assert sum(claim.is_better for claim in claims) <= 0.05 * len(claims)


def test_a_gain_of_three_times_the_noise_is_claimed_with_its_interval() -> None:
    gain = gain_of([100, 98, 101, 99, 102], [116, 115, 117, 114, 118])
    assert gain.is_better
    assert gain.low < 0.16 < gain.high
    assert gain.words.startswith("+16.0% over the default (+")


def test_words_of_no_gain() -> None:
    assert Gain(0.01, -0.02, 0.04, 5).words == (
        "no better than the default (+1.0%, -2.0% to +4.0%, 5 pairs)"
    )


def test_a_claim_needs_five_pairs() -> None:
    with pytest.raises(ValueError, match="4 pairs; a claim needs 5"):
        gain_of([1.0] * 4, [2.0] * 4)


def test_failed_trials_are_no_candidates() -> None:
    pytest.importorskip("optuna")
    search = TuningSearch({"a": (None, 1, 2)}, seed=0)
    search.add(Trial({"a": None}, 100.0, 0.01))
    search.add(Trial({"a": 1}, reason="out of memory"))
    search.add(Trial({"a": 2}, 50.0, 0.01))
    assert search.candidates() == [(("a", None),)]
