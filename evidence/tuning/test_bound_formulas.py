"""The formulas that `perf.tuning_bound` knows are the ones that the simulated engines compute."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence

import numpy as np
import pytest

from perf import tuning_bound
from perf.tuning_bound import ENGINES, Family

LEFT_OUT = {"serving engine": [5], "roofline": [16]}
"""The draw that decides which settings fail, which is known."""


class Draws(random.Random):
    """Keeps each number that an engine draws as a place between 0 and 1."""

    places: list[float]

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.places = []

    def _kept(self) -> float:
        self.places.append(super().random())
        return self.places[-1]

    def random(self) -> float:
        return self._kept()

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self._kept()

    def choice(self, seq: Sequence[object]) -> object:  # type: ignore[override]
        return seq[int(len(seq) * self._kept())]

    def randrange(self, start: int) -> int:  # type: ignore[override]
        return int(start * self._kept())

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        return statistics.NormalDist(mu, sigma).inv_cdf(self._kept())


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_the_formula_is_the_engines(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    drawn: list[Draws] = []

    def source(text: str) -> Draws:
        drawn.append(Draws(text))
        return drawn[-1]

    monkeypatch.setattr(random, "Random", source)
    engine = ENGINES[name].engine(seed)
    numbers = np.delete(drawn[0].places, LEFT_OUT.get(name, []))
    if name == "one optimum":
        weights = [math.log(w / 0.004, 30) for w in (0.06, 0.03, 0.015, 0.008)]
        numbers = np.append(numbers, weights)
    assert len(numbers) == ENGINES[name].numbers
    rows = np.array(list(itertools.product(*(range(len(c)) for c in engine.space.values()))))
    settings = [
        {n: c[i] for (n, c), i in zip(engine.space.items(), row, strict=True)} for row in rows[::37]
    ]
    family = Family(engine, ENGINES[name], seed)
    found = family.at(numbers[None], rows[::37])[0]
    shares = [engine.share(each) for each in settings]
    runs = np.array([share is not None for share in shares])
    expected = np.log([share for share in shares if share is not None])
    away = found[runs] - expected
    assert away == pytest.approx(away.mean(), abs=1e-6)
    assert expected.std() > 0.01


@pytest.mark.parametrize("known", ENGINES.values(), ids=ENGINES)
def test_the_level_of_the_rates_says_nothing_and_a_wrong_shape_does(
    known: tuning_bound.Known,
) -> None:
    noise = 0.05 * np.random.default_rng(0).standard_normal((1, 40))
    wrong = noise + np.linspace(0, 1, 40)
    right, shifted, other = (known.likelihood(each)[0] for each in (noise, noise + 3, wrong))
    assert right == pytest.approx(shifted)
    assert other < right - 10


def test_a_search_ends_near_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_bound, "_POINTS", 100)
    monkeypatch.setattr(tuning_bound, "TRIALS", 30)
    known = ENGINES["one optimum"]
    engine = known.engine(0)
    share = engine.share(Family(engine, known, 0).searched())
    assert share is not None
    assert share > 0.9
