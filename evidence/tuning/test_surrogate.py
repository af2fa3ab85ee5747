"""What the model of a search expects of settings, from a few runs with noise."""

from __future__ import annotations

import numpy as np
import pytest

from mlperf_suite.features.tuning.search import TuningSearch
from mlperf_suite.features.tuning.space import Trial
from mlperf_suite.features.tuning.surrogate import Feasibility, Surrogate, kernels_of


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


def test_one_setting_changed_around_the_best() -> None:
    search = TuningSearch({"a": (None, True), "b": (None, "x", "y")}, seed=0)
    for a in (None, True):
        for b, factor in ((None, 1.0), ("x", 1.2), ("y", 1.4)):
            search.add(Trial({"a": a, "b": b}, 100 * factor * (2 if a else 1), 0.01))
    changes = {(name, choice): change for name, choice, change in search.around(search.best())}
    assert changes.keys() == {("a", None), ("b", None), ("b", "x")}
    assert changes["a", None] == pytest.approx(-0.5, abs=0.05)
    assert changes["b", "x"] == pytest.approx(1.2 / 1.4 - 1, abs=0.05)
