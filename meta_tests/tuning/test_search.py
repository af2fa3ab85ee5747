"""The search and the claim on simulated engines: 10,000 settings, 5% noise, a known optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlperf_suite.features.tuning.claim import Gain, gain_of
from mlperf_suite.features.tuning.feasibility import Feasibility
from mlperf_suite.features.tuning.search import TuningSearch
from mlperf_suite.features.tuning.space import Settings, Trial
from mlperf_suite.features.tuning.surrogate import Surrogate, kernels_of
from perf.simulated_engines import TRIALS, one_optimum


def test_a_search_begins_with_the_default_and_ends_near_the_optimum() -> None:
    engine = one_optimum(0)
    search = TuningSearch(engine.space, 0)
    for number in range(TRIALS):
        search.add(engine.measure(search.following(number / TRIALS)))
    assert search.trials[0].settings == {n: choices[0] for n, choices in engine.space.items()}
    share = engine.share(search.best())
    assert share and share > 0.95


def test_values_of_a_number_resemble_their_neighbours_and_words_nothing() -> None:
    for kernel in (kernels_of((None, 64, 16, 32)).alone, kernels_of((None, 64, 16, 32)).paired):
        assert kernel[1, 3] > kernel[1, 2], "64 is nearer to 32 than to 16"
        assert kernel[0, 1:].tolist() == [0, 0, 0]
        assert np.linalg.eigvalsh(kernel).min() > -1e-9
    assert np.array_equal(kernels_of((None, True, False)).alone, np.eye(3))
    doubling = kernels_of((1, 2, 4, 8, 16)).paired
    assert doubling[0, 1] == pytest.approx(doubling[4, 3]), "at equal distances"


def test_the_model_pools_runs_that_share_a_value() -> None:
    space = {"a": (None, True), "b": tuple(range(4))}
    rows = np.array([[a, b] for a in (0, 1) for b in range(4)] * 2)
    logs = 0.3 * rows[:, 0] + np.array([0.05, -0.05] * 8)
    model = Surrogate(space)
    model.fit(rows, logs, np.full(16, 0.05), refits=True)
    asked = np.array([[0, 1], [1, 1]])
    low, high = model.mean(asked)
    assert high - low == pytest.approx(0.3, abs=0.05)
    assert model.deviations(asked).max() < 0.05


def test_draws_scatter_around_the_mean_as_the_deviation_says() -> None:
    space = {"a": (None, 1, 2, 4), "b": ("x", "y")}
    rows = np.array([[0, 0], [1, 0], [2, 1], [3, 1], [3, 0]])
    model = Surrogate(space)
    model.fit(rows, np.array([0.0, 0.1, 0.12, 0.08, 0.2]), np.full(5, 0.05), refits=False)
    every = np.array([[a, b] for a in range(4) for b in range(2)])
    source = np.random.default_rng(0)
    drawn = np.array([model.draw(every, source) for _ in range(500)])
    assert drawn.mean(axis=0) == pytest.approx(model.mean(every), abs=0.015)
    assert drawn.std(axis=0) == pytest.approx(model.deviations(every), rel=0.15)


def test_a_run_cut_short_counts_less() -> None:
    space = {"a": (None, True)}
    means = []
    for error in (0.05, 0.3):
        model = Surrogate(space)
        model.fit(
            np.array([[0], [0], [1]]), np.array([0, 0, -0.3]), np.array([0.05, 0.05, error]), False
        )
        means.append(model.mean(np.array([[1]]))[0])
    assert means[0] < means[1] < 0


def test_the_best_is_not_the_luckiest_run() -> None:
    search = TuningSearch({"a": (None, True, False)}, seed=0)
    for value, rate in ((None, 100), (True, 110), (True, 111), (True, 112), (False, 114)):
        search.add(Trial({"a": value}, rate, 0.05))
    for rate in (99, 101, 98):
        search.add(Trial({"a": False}, rate, 0.05))
    search.add(Trial({"a": False}, reason="out of memory"))
    assert search.best() == {"a": True}


def test_avoids_the_neighbours_of_what_failed() -> None:
    space = {"a": tuple(range(8)), "b": (None, True)}
    search = TuningSearch(space, seed=0)
    for a in (0, 1, 2, 3, 5, 6, 7):
        for b in (None, True):
            failed = {"reason": "out of memory"} if a > 4 else {"rate": 100.0 + 10 * a}
            search.add(Trial({"a": a, "b": b}, error=0.01, **failed))
    assert search.following(0.9)["a"] in (2, 3, 4)


def test_one_failure_says_something_of_settings_that_need_more() -> None:
    space = {"a": (1, 2, 4, 8, 16), "b": (1, 2, 4, 8, 16)}
    model = Feasibility(space)
    model.fit(np.array([[0, 0], [1, 2], [3, 3]]), [True, True, False])
    little, much, more = model.probability(np.array([[0, 0], [3, 3], [4, 4]]))
    assert little > 0.8
    assert 0.5 > much > more


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


def test_a_claim_needs_five_pairs() -> None:
    with pytest.raises(ValueError, match="4 pairs; a claim needs 5"):
        gain_of([1.0] * 4, [2.0] * 4)


def test_one_setting_changed_around_the_best() -> None:
    search = TuningSearch({"a": (None, True), "b": (None, "x", "y")}, seed=0)
    for a in (None, True):
        for b, factor in ((None, 1.0), ("x", 1.2), ("y", 1.4)):
            search.add(Trial({"a": a, "b": b}, 100 * factor * (2 if a else 1), 0.01))
    changes = {(name, choice): change for name, choice, change in search.around(search.best())}
    assert changes.keys() == {("a", None), ("b", None), ("b", "x")}
    assert changes["a", None] == pytest.approx(-0.5, abs=0.05)
    assert changes["b", "x"] == pytest.approx(1.2 / 1.4 - 1, abs=0.05)
