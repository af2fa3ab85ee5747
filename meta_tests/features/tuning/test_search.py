"""The search and the claim on simulated engines: 10,000 settings, 5% noise, a known optimum."""

from __future__ import annotations

import math

import pytest

from mlperf_suite.features.tuning.claim import Gain, gain_of
from mlperf_suite.features.tuning.search import TuningSearch
from mlperf_suite.features.tuning.space import Settings, Trial
from perf.simulated_engines import TRIALS, one_optimum


def test_a_search_begins_with_the_default_and_ends_near_the_optimum() -> None:
    engine = one_optimum(0)
    search = TuningSearch(engine.space, 0)
    for number in range(TRIALS):
        search.add(engine.measure(search.following(number / TRIALS)))
    assert search.trials[0].settings == {n: choices[0] for n, choices in engine.space.items()}
    share = engine.share(search.best())
    assert share and share > 0.95


def test_the_best_is_not_the_luckiest_run() -> None:
    search = TuningSearch({"a": (None, True, False)}, seed=0)
    for value, rate in ((None, 100), (True, 110), (True, 111), (True, 112), (False, 114)):
        search.add(Trial({"a": value}, rate, 0.05))
    for rate in (99, 101, 98):
        search.add(Trial({"a": False}, rate, 0.05))
    search.add(Trial({"a": False}, reason="out of memory"))
    assert search.best() == {"a": True}


def test_settings_that_are_being_measured_are_not_proposed_again() -> None:
    search = TuningSearch({"a": (None, 1), "b": (None, 1)}, seed=0)
    pending: list[Settings] = []
    for _ in range(4):
        pending.append(search.following(0.9, pending))
    search.add(Trial(pending[0], 100.0, 0.01))
    search.add(Trial(pending[1], 101.0, 0.01))
    every = [{"a": a, "b": b} for a in (None, 1) for b in (None, 1)]
    assert search.following(0.9, every[:3]) == every[3]


def test_a_search_of_few_trials_changes_one_setting_after_the_other() -> None:
    space = {"a": (None, "x", "y"), "b": (None, 1, 2, 4), "c": (None, True)}
    search = TuningSearch(space, seed=0)
    singles = []
    for spent in (0.0, 0.15, 0.3, 0.45):
        singles.append(search.following(spent))
        search.add(Trial(singles[-1], 100.0, 0.05))
    changed = [{n: choice for n, choice in row.items() if choice is not None} for row in singles]
    assert changed == [{}, {"a": "x"}, {"b": 1}, {"c": True}]


def test_a_fixed_setting_is_in_every_trial() -> None:
    search = TuningSearch({"a": (8,), "b": (None, True, False)}, seed=0)
    for number in range(16):
        search.add(Trial(search.following(number / 16), 100.0, 0.05))
    assert {trial.settings["a"] for trial in search.trials} == {8}
    assert search.best()["a"] == 8


def test_the_leader_is_known_after_two_runs() -> None:
    search = TuningSearch({"a": (None, True)}, seed=0)
    search.add(Trial({"a": None}, 100.0, 0.05))
    assert search.leader() is None
    for rate in (130.0, 131.0, 129.0):
        search.add(Trial({"a": True}, rate, 0.05))
    leader = search.leader()
    assert leader is not None
    assert math.exp(leader.mean) == pytest.approx(128, abs=4)
    assert 0 < leader.deviation < 0.05


def test_a_space_of_millions_is_sampled() -> None:
    space = {name: tuple(range(20)) for name in "abcdef"}
    search = TuningSearch(space, seed=0)
    for number in range(3):
        search.add(Trial(search.following(number / 3), 100.0 + number, 0.01))
    assert search.following(0.9).keys() == space.keys()


def test_a_gain_of_three_times_the_noise_is_claimed_with_its_interval() -> None:
    gain = gain_of([100, 98, 101, 99, 102], [116, 115, 117, 114, 118])
    assert gain.is_better
    assert gain.low < 0.16 < gain.high
    assert gain.words.startswith("+16.0% over the default (+")
    assert Gain(0.01, -0.02, 0.04, 5).words == (
        "no better than the default (+1.0%, -2.0% to +4.0%, 5 pairs)"
    )
    with pytest.raises(ValueError, match="4 pairs; a claim needs 5"):
        gain_of([1.0] * 4, [2.0] * 4)
