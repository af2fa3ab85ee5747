"""What a search reaches that knows an engine's formula, but none of its numbers, in as many trials.

    OPENBLAS_NUM_THREADS=1 python -m perf.tuning_bound [--searches 10] [--first 0]

A mark for `perf.tuning_search`: the posterior over the numbers of each of its engines, as 600
points that are resampled and moved (Del Moral, Doucet and Jasra, Sequential Monte Carlo
Samplers, 2006; moves: ter Braak, Differential Evolution Markov Chain, 2006). Which settings
fail and how the noise is distributed are known too; of "one optimum", how fast the rate falls with
each setting is not, although it is the same for all seeds. A trial goes where it is expected to
raise the result the most (Frazier, Powell and Dayanik, The Knowledge-Gradient Policy for Correlated
Normal Beliefs, 2009).
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mlperf_suite.features.tuning.space import Settings
from perf.simulated_engines import (
    NOISE,
    TRIALS,
    SimulatedEngine,
    any_shapes,
    drifting,
    one_optimum,
    roofline,
    serving_engine,
)

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Formula = Callable[[Floats, list[Floats], Rows], Floats]
"""The logarithms of the rates: a row for each point, a column for each setting. Takes points
between 0 and 1, the values of each name (nan: the default) and the settings' rows."""
_POINTS, _MOVES, _LAST_MOVES = 600, 12, 60
_DRAWS, _ASKED, _NODES = 16, 300, 9


Likelihood = Callable[[Floats], Floats]
"""The logarithm of each point's likelihood, given by how much the measured logarithms lie above its
own: a row for each point, a column for each trial. The level of the rates is not known."""


def _one_optimum(points: Floats, values: list[Floats], rows: Rows) -> Floats:
    """`one_optimum`; a weight is between 0.4% and 12%."""
    best, weights = np.minimum(np.floor(10 * points[:, :4]), 9), 0.004 * 30 ** points[:, 4:]
    places = np.array([values[c][rows[:, c]] for c in range(4)]).T
    return np.asarray(-(weights[:, None] * np.abs(places - best[:, None]) ** 1.3).sum(axis=2))


def _serving(points: Floats, values: list[Floats], rows: Rows) -> Floats:
    """`serving_engine`."""
    p = points.T[:, :, None]
    seqs = np.log2(np.nan_to_num(values[0], nan=256))[rows[:, 0]] - 2
    tokens = np.log2(np.nan_to_num(values[1], nan=4096))[rows[:, 1]] - 8
    knee, best, fall, slope = 3 + 4 * p[0], 3 + 5 * p[1], 0.01 + 0.03 * p[2], 0.02 + 0.03 * p[3]
    rate = -0.15 * np.exp(-(seqs - knee) / 1.2) - fall * np.maximum(0, seqs - knee)
    rate -= slope * np.abs(tokens - best) ** 1.3 + 0.03 * p[4] * np.maximum(0, seqs - tokens)
    rate += (rows[:, 3] == 1) * (0.13 * p[5] - 0.05) * np.where(seqs > knee, 1, 0.5)
    rate += (rows[:, 4] == 1) * (0.16 * p[6] - 0.08)
    words = 0.06 * points[:, 7:12][:, rows[:, 2]] + 0.4 * points[:, 12:17][:, rows[:, 5]]
    return np.asarray(rate - words)


def _roofline(points: Floats, values: list[Floats], rows: Rows) -> Floats:
    """`roofline`."""
    p = points.T[:, :, None]
    usual = (4 + 5 * p[0], 9 + 5 * p[1], np.minimum(np.floor(4 * p[2]), 3))
    seqs, tokens, threads = (
        np.where(np.isnan(values[c]), default, np.log2(np.nan_to_num(values[c], nan=1)))[
            :, rows[:, c]
        ]
        for c, default in zip((0, 1, 5), usual, strict=True)
    )
    fp8 = rows[:, 3] == 1
    held, tokens = 2**seqs * np.where(fp8, 0.6, 1), 2**tokens
    decode = 1 + 2 ** (4 + 5 * p[3] - seqs)
    prefill = tokens / (tokens + 2 ** (9 + 4 * p[4])) / (1 + tokens / 2**16)
    work = (0.5 + 2.5 * p[6]) * np.exp(-0.15 * (threads - 3 * p[10]) ** 2)
    swapping = 1 + 0.3 * np.maximum(0, held * 8 / 2 ** (9 + 5 * p[7]) - 1)
    time = (decode + 3 * (0.02 + 0.18 * p[5]) / prefill + 1 / work) * swapping
    switches = (0.15 * p[8] - 0.05) * fp8 - 0.25 * p[9] * (rows[:, 4] == 1)
    return np.asarray(switches - 0.04 * points[:, 11:16][:, rows[:, 2]] - np.log(time))


def _any_shapes(points: Floats, values: list[Floats], rows: Rows) -> Floats:
    """`any_shapes`."""
    from scipy.special import ndtri

    p = points.T[:, :, None]
    words = 0.05 * ndtri(np.clip(points[:, 9:18], 1e-6, 1 - 1e-6))
    rate = words[:, :5][:, rows[:, 3]] + words[:, 5:][:, rows[:, 4]]
    for c in range(3):
        places = np.log2(values[c])[rows[:, c]] / (len(values[c]) - 1)
        size, centre, kind = 0.03 * 13 ** p[3 * c], p[3 * c + 1], np.floor(4 * p[3 * c + 2])
        rising = [size * places, -2 * size * np.exp(-places / 0.2)]
        shapes = [*rising, -4 * size * (places - centre) ** 2, size * (places > centre)]
        rate = rate + np.select([kind == 0, kind == 1, kind == 2], shapes[:3], shapes[3])
    one, other = (np.log2(values[c])[rows[:, c]] / 9 - 0.5 for c in range(2))
    return np.asarray(rate + 4 * (0.3 * p[18] - 0.15) * one * other)


def _drifting(points: Floats, values: list[Floats], rows: Rows) -> Floats:
    """`drifting`."""
    places = np.array([np.log2(values[c])[rows[:, c]] for c in range(4)]).T
    away = places - 9 * points[:, None, :4]
    sides = 0.005 + 0.055 * points[:, None, 4:]
    slopes = np.where(away > 0, sides[:, :, 1::2], sides[:, :, ::2])
    return np.asarray(-(slopes * np.abs(away) ** 1.3).sum(axis=2))


def _usual(away: Floats) -> Floats:
    """Each run differs on its own."""
    return np.asarray(-0.5 * away.var(axis=1) * away.shape[1] / NOISE**2)


def _drift(away: Floats) -> Floats:
    """The noise of `drifting`."""
    inverse = _inverse_of_drift(away.shape[1])
    sums = away @ inverse
    level = sums.sum(axis=1) ** 2 / inverse.sum()
    return np.asarray(-0.5 * ((sums * away).sum(axis=1) - level) / NOISE**2)


@cache
def _inverse_of_drift(count: int) -> Floats:
    numbers = np.arange(count)
    shared = 0.6**2 * 0.9 ** np.abs(numbers[:, None] - numbers)
    return np.asarray(np.linalg.inv(shared + 0.8**2 * np.eye(count)))


def _outliers(away: Floats) -> Floats:
    """The noise of `any_shapes`: Student's t of 4 degrees of freedom, scaled to 5%."""
    away = (away - np.median(away, axis=1, keepdims=True)) / NOISE
    return np.asarray(-2.5 * np.log1p(away**2 / 2).sum(axis=1))


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an engine: `numbers` are how many are not."""

    engine: Callable[[int], SimulatedEngine]
    formula: Formula
    numbers: int
    likelihood: Likelihood = _usual


class Family:
    """The posterior over one engine's numbers; `searched` is its result after all trials."""

    def __init__(self, engine: SimulatedEngine, known: Known, seed: int) -> None:
        self._engine, self._known = engine, known
        choices = engine.space.values()
        self._values = [
            np.array([c if isinstance(c, int) else math.nan for c in names]) for names in choices
        ]
        every = np.array(list(itertools.product(*(range(len(names)) for names in choices))))
        self._every = every[[engine.share(self._settings(row)) is not None for row in every]]
        self._random = np.random.default_rng(seed)
        self._points = self._random.random((_POINTS, known.numbers))
        self._heights = np.zeros(_POINTS)
        self._rows, self._logs = every[:0], np.empty(0)

    def searched(self) -> Settings:
        """The settings with the highest mean after all trials."""
        for number in range(TRIALS):
            row = self._most_telling(0.25 * (TRIALS - number)) if number > 1 else self._any(1)[0]
            rate = self._engine.measure(self._settings(row)).rate or 1.0
            before = self._heights - self._likelihood(self._points) if number else self._heights
            self._rows = np.concatenate([self._rows, row[None]])
            self._logs = np.append(self._logs, math.log(rate))
            self._heights = before + self._likelihood(self._points)
            self._resample()
        self._move(_LAST_MOVES)
        parts = np.array_split(self._every, 20)
        means = [self._weights() @ self.at(self._points, part) for part in parts]
        return self._settings(self._every[int(np.argmax(np.concatenate(means)))])

    def _settings(self, row: Rows) -> Settings:
        return {n: c[i] for (n, c), i in zip(self._engine.space.items(), row, strict=True)}

    def _any(self, count: int) -> Rows:
        return self._every[self._random.integers(len(self._every), size=count)]

    def at(self, points: Floats, rows: Rows) -> Floats:
        """The formula's logarithms of the rates: a row for each point, a column for each of
        `rows`."""
        return self._known.formula(points, self._values, rows)

    def _likelihood(self, points: Floats) -> Floats:
        return self._known.likelihood(self._logs - self.at(points, self._rows))

    def _weights(self) -> Floats:
        weights = np.exp(self._heights - self._heights.max())
        return np.asarray(weights / weights.sum())

    def _resample(self) -> None:
        weights = self._weights()
        if (weights**2).sum() * _POINTS > 2:
            places = (self._random.uniform() + np.arange(_POINTS)) / _POINTS
            which = np.minimum(np.searchsorted(np.cumsum(weights), places), _POINTS - 1)
            self._points, self._heights = self._points[which], np.zeros(_POINTS)
            self._move(_MOVES)

    def _move(self, count: int) -> None:
        shape, source = self._points.shape, self._random
        known = self._likelihood(self._points)
        for _ in range(count):
            one, other = (self._points[source.permutation(_POINTS)] for _ in range(2))
            changed = source.random(shape) < source.choice([0.2, 0.5, 1.0])
            length = 2.38 / np.sqrt(2 * np.maximum(changed.sum(axis=1, keepdims=True), 1))
            step = source.choice([1.0, 0.5, 0.3]) * length * (one - other)
            moved = np.abs(self._points + changed * (step + source.normal(0, 0.01, shape)))
            moved = np.clip(np.where(moved > 1, 2 - moved, moved), 0, 1 - 1e-9)
            heights = self._likelihood(moved)
            taken = np.log(source.random(_POINTS)) < heights - known
            self._points[taken], known[taken] = moved[taken], heights[taken]

    def _most_telling(self, repeats: float) -> Rows:
        """The row with the highest knowledge gradient."""
        weights = self._weights()
        drawn = self._points[self._random.choice(_POINTS, _DRAWS, p=weights)]
        best = self._every[np.unique(self.at(drawn, self._every).argmax(axis=1))]
        rows = np.concatenate([best, self._any(_ASKED)])
        level = self.at(self._points, self._rows).mean(axis=1, keepdims=True)
        values = self.at(self._points, rows) - level
        means = weights @ values
        away = values - means
        covariance = (away * weights[:, None]).T @ away[:, : len(best)]
        spread = weights @ away**2 + NOISE**2 / max(repeats, 1.0)
        places, parts = np.polynomial.hermite_e.hermegauss(_NODES)
        steps = covariance / np.sqrt(spread)[:, None]
        highest = [(means[: len(best)] + place * steps).max(axis=1) for place in places]
        return np.asarray(rows[int(np.argmax(parts @ np.array(highest)))])


ENGINES = {
    "one optimum": Known(one_optimum, _one_optimum, 8),
    "serving engine": Known(serving_engine, _serving, 17),
    "roofline": Known(roofline, _roofline, 16),
    "any shapes": Known(any_shapes, _any_shapes, 19, _outliers),
    "drifting": Known(drifting, _drifting, 12, _drift),
}


def main() -> None:
    """Print a line for each engine."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--searches", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first search's seed")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    arguments = parser.parse_args()
    for name in arguments.engines:
        known = ENGINES[name]
        found = []
        for seed in range(arguments.first, arguments.first + arguments.searches):
            engine = known.engine(seed)
            found.append(engine.share(Family(engine, known, seed).searched()) or 0.0)
        near = sum(share >= 0.98 for share in found)
        below = [f"{(share - 1) * 100:.1f}%" for share in (statistics.median(found), min(found))]
        print(f"| {name} | {near} of {len(found)} | {' | '.join(below)} |", flush=True)


if __name__ == "__main__":
    main()
