"""What a search reaches that knows an engine's formula, but none of its numbers, in as many trials.

    OPENBLAS_NUM_THREADS=1 python -m perf.tuning_bound [--searches 10] [--first 0]

A mark for `perf.tuning_search`: the posterior over the numbers of `serving_engine` and `roofline`,
as 600 points that are resampled and moved (Del Moral, Doucet and Jasra, Sequential Monte Carlo
Samplers, 2006; moves: ter Braak, Differential Evolution Markov Chain, 2006). Which settings
fail and the noise are known too. A trial goes where it is expected to raise the result the most
(Frazier, Powell and Dayanik, The Knowledge-Gradient Policy for Correlated Normal Beliefs, 2009).
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from meta_tests.tuning.simulated import NOISE, TRIALS, SimulatedEngine, roofline, serving_engine
from mlperf_suite.tuning.space import Settings

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Formula = Callable[[Floats, list[Floats], Rows], Floats]
"""The logarithms of the rates: a row for each point, a column for each setting. Takes points
between 0 and 1, the values of each name (nan: the default) and the settings' rows."""
_POINTS, _MOVES, _LAST_MOVES = 600, 12, 60
_DRAWS, _ASKED, _NODES = 16, 300, 9


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


class Family:
    """The posterior over one engine's numbers; `searched` is its result after all trials."""

    def __init__(self, engine: SimulatedEngine, formula: Formula, numbers: int, seed: int) -> None:
        self._engine, self._formula = engine, formula
        choices = engine.space.values()
        self._values = [
            np.array([c if isinstance(c, int) else math.nan for c in names]) for names in choices
        ]
        every = np.array(list(itertools.product(*(range(len(names)) for names in choices))))
        self._every = every[[engine.share(self._settings(row)) is not None for row in every]]
        self._random = np.random.default_rng(seed)
        self._points = self._random.random((_POINTS, numbers))
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
        means = [self._weights() @ self._at(self._points, part) for part in parts]
        return self._settings(self._every[int(np.argmax(np.concatenate(means)))])

    def _settings(self, row: Rows) -> Settings:
        return {n: c[i] for (n, c), i in zip(self._engine.space.items(), row, strict=True)}

    def _any(self, count: int) -> Rows:
        return self._every[self._random.integers(len(self._every), size=count)]

    def _at(self, points: Floats, rows: Rows) -> Floats:
        return self._formula(points, self._values, rows)

    def _likelihood(self, points: Floats) -> Floats:
        """The level of the rates is not known."""
        away = self._logs - self._at(points, self._rows)
        return np.asarray(-0.5 * away.var(axis=1) * len(self._logs) / NOISE**2)

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
        best = self._every[np.unique(self._at(drawn, self._every).argmax(axis=1))]
        rows = np.concatenate([best, self._any(_ASKED)])
        level = self._at(self._points, self._rows).mean(axis=1, keepdims=True)
        values = self._at(self._points, rows) - level
        means = weights @ values
        away = values - means
        covariance = (away * weights[:, None]).T @ away[:, : len(best)]
        spread = weights @ away**2 + NOISE**2 / max(repeats, 1.0)
        places, parts = np.polynomial.hermite_e.hermegauss(_NODES)
        steps = covariance / np.sqrt(spread)[:, None]
        highest = [(means[: len(best)] + place * steps).max(axis=1) for place in places]
        return np.asarray(rows[int(np.argmax(parts @ np.array(highest)))])


ENGINES = {
    "serving engine": (serving_engine, _serving, 17),
    "roofline": (roofline, _roofline, 16),
}


def main() -> None:
    """Print a line for each engine."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--searches", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first search's seed")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    arguments = parser.parse_args()
    for name in arguments.engines:
        engine_of, formula, numbers = ENGINES[name]
        found = []
        for seed in range(arguments.first, arguments.first + arguments.searches):
            engine = engine_of(seed)
            found.append(engine.share(Family(engine, formula, numbers, seed).searched()) or 0.0)
        near = sum(share >= 0.98 for share in found)
        below = [f"{(share - 1) * 100:.1f}%" for share in (statistics.median(found), min(found))]
        print(f"| {name} | {near} of {len(found)} | {' | '.join(below)} |", flush=True)


if __name__ == "__main__":
    main()
