"""A model of the engine's rate over its settings: what each adds, and what two add together.

A run differs from the next one of the same settings by several percent, more than the best
settings differ from their neighbours. So settings are compared by a regression over all trials,
not by their own runs alone: each trial says something about every setting that shares a value
with it. The model is a Gaussian process whose kernel is a sum over settings and over pairs of
settings (the functional ANOVA of Duvenaud et al., Additive Gaussian Processes, 2011). What a
number does is a straight line, a bend and a smooth rest over its logarithm. The variances are
those with the highest posterior probability (Rasmussen and Williams 2006, section 5.4.1).

As each term depends on one or two settings, a function drawn from the model is a few small tables,
which are added up for the settings asked for.

Which settings run at all is a second model: memory grows with several settings at once, so one
trial that runs out of it says something about many. A logistic regression whose weights have a
normal prior (Bishop, Pattern Recognition and Machine Learning, 2006, section 4.5: Laplace's
approximation, the probit in equation 4.153) has a slope for each number and a weight for each word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from mlperf_suite.features.tuning.space import Choice, Space

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
"""A row for each setting of the engine as a whole, a column for each name: the choice's number."""

_LINE, _BEND, _REST, _OWN = 0.5, 0.5, 0.25, 0.02
"""The shares of a number's variance: a straight line, a bend, a smooth rest, each value's own."""
_LENGTH, _PAIR_LENGTH = 0.35, 0.7
"""How far values resemble each other in the rest, and in pairs, in shares of the number's range."""
_DEFAULT = 0.7
"""The variance of a default, whose number is not known, in the same unit."""
_SPREAD = 0.15
"""What one setting is expected to change, in logarithms: 0.15 is 15%. The data decide."""
_PAIR_SHARE = 0.15
"""The expected variance of a pair, as a share of the product of its settings' deviations."""
_WIDTHS = (2.0, 1.5, 1.0)
"""The standard deviations of the logarithms of the settings', the pairs' and the noise's variance
around their expectation."""
_STEPS = 25
"""Steps of a fit; the next one goes on from there."""
_LESS_WEIGHT, _LOW = 0.15, 1.0
"""Logarithms below the best: from the first, trials count less; lower than the second, none is."""
_MISFIT = 0.25
"""How much less: the model need not be right where settings are slow."""


def is_number(choice: Choice) -> TypeGuard[float]:
    """Whether a choice has a place among others: a switch, a word and the default have none."""
    return isinstance(choice, int | float) and not isinstance(choice, bool)


@dataclass(frozen=True, slots=True)
class Kernels:
    """How the effects of one name's choices vary together: alone, and as part of a pair."""

    alone: Floats
    paired: Floats


def kernels_of(choices: Sequence[Choice]) -> Kernels:
    """Numbers lie on a line, words, switches and the default are like nothing else."""
    order = sorted(value for value in choices if is_number(value))
    if len(order) < 3:
        return Kernels(np.eye(len(choices)), np.eye(len(choices)))
    places = _places(order)
    line, bend = places / places.std(), places**2 - (places**2).mean()
    bend = bend / (bend.std() or 1.0)
    distances = np.abs(places[:, None] - places) / 2
    straight, bent = np.outer(line, line), np.outer(bend, bend)
    alone = _LINE * straight + _BEND * bent + _REST * _matern(distances / _LENGTH)
    paired = 0.5 * straight + 0.25 * bent + 0.25 * np.exp(-0.5 * (distances / _PAIR_LENGTH) ** 2)
    where = [place for place, choice in enumerate(choices) if is_number(choice)]
    which = [order.index(choice) for choice in choices if is_number(choice)]
    whole = [np.eye(len(choices)) * _DEFAULT for _ in range(2)]
    for kernel, part in zip(whole, (alone + _OWN * np.eye(len(order)), paired), strict=True):
        kernel[np.ix_(where, where)] = part[np.ix_(which, which)]
    return Kernels(*whole)


def _places(order: Sequence[float]) -> Floats:
    """Where numbers lie between -1 and 1: by their logarithm if they cover a factor of four."""
    values = np.array(order, dtype=np.float64)
    if values[0] > 0 and values[-1] >= 4 * values[0]:
        values = np.log(values)
    return np.asarray((values - values.mean()) / np.ptp(values) * 2)


def _matern(distances: Floats) -> Floats:
    """Matérn's kernel of smoothness 5/2 (Rasmussen and Williams 2006, equation 4.17)."""
    scaled = math.sqrt(5) * distances
    return np.asarray((1 + scaled + scaled**2 / 3) * np.exp(-scaled))


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the settings: a level, a table for each name and one for each pair."""

    level: float
    alone: Sequence[Floats]
    paired: Sequence[tuple[int, int, Floats]]

    def at(self, rows: Indices) -> Floats:
        """Its values at these rows."""
        values = np.full(len(rows), self.level)
        for column, table in enumerate(self.alone):
            values += table[rows[:, column]]
        for left, right, table in self.paired:
            values += table[rows[:, left], rows[:, right]]
        return values


class Surrogate:
    """The model of one space; `fit` it to trials, then ask for its mean or draw from it."""

    def __init__(self, space: Space) -> None:
        self._kernels = [kernels_of(choices) for choices in space.values()]
        self._roots = [
            Kernels(_root(kernels.alone), _root(kernels.paired)) for kernels in self._kernels
        ]
        self._pairs = [(j, k) for k in range(len(space)) for j in range(k)]
        self._prior = np.array(
            [2 * math.log(_SPREAD)] * len(space) + [math.log(_PAIR_SHARE), 0.0], dtype=np.float64
        )
        self._logs_of = self._prior.copy()
        self._is_new = True

    def fit(self, rows: Indices, logs: Floats, errors: Floats, refits: bool) -> None:
        """Take trials. `errors`: the standard deviation of each one's logarithm, as the runs say
        themselves. `refits`: whether the variances are fitted anew, which takes the longest."""
        best = float(np.sort(logs)[-max(1, len(logs) // 8) :].mean())
        low = np.minimum(best - logs, 1.5 * _LOW) - _LESS_WEIGHT
        self._misfit = (_MISFIT * np.maximum(low, 0.0)) ** 2
        logs = np.maximum(logs, best - _LOW)
        self._rows, self._errors, self._level = rows, errors, float(logs.mean())
        self._logs = logs - self._level
        terms = _Terms(
            [k.alone[np.ix_(rows[:, c], rows[:, c])] for c, k in enumerate(self._kernels)],
            [k.paired[np.ix_(rows[:, c], rows[:, c])] for c, k in enumerate(self._kernels)],
        )
        if refits or self._is_new:
            self._logs_of, self._is_new = self._most_likely(terms), False
        self._variances = np.exp(self._logs_of)
        covariance = terms.covariance(self._variances) + np.diag(self._noise(self._variances[-1]))
        self._inverse = _inverse(covariance + 1.0)

    def mean(self, rows: Indices) -> Floats:
        """The expectation of these rows: the logarithm of the rate."""
        return self._given(self._logs).at(rows) + self._level

    def draw(self, rows: Indices, source: np.random.Generator) -> Floats:
        """One function that may be the true one, at these rows (Wilson et al., Efficiently sampling
        functions from Gaussian process posteriors, 2020, equation 9)."""
        prior = self._drawn(source)
        noise = np.sqrt(self._noise(self._variances[-1])) * source.standard_normal(len(self._logs))
        away = self._logs - prior.at(self._rows) - noise
        return prior.at(rows) + self._given(away).at(rows) + self._level

    def deviations(self, rows: Indices) -> Floats:
        """The standard deviation of the logarithm of each row's rate, a run's noise left out."""
        both = np.concatenate([rows, self._rows])
        terms = _Terms(
            [k.alone[np.ix_(both[:, c], both[:, c])] for c, k in enumerate(self._kernels)],
            [k.paired[np.ix_(both[:, c], both[:, c])] for c, k in enumerate(self._kernels)],
        )
        whole = terms.covariance(self._variances) + 1.0
        cross = whole[: len(rows), len(rows) :]
        known = np.einsum("ij,jk,ik->i", cross, self._inverse, cross)
        return np.asarray(np.sqrt(np.maximum(np.diag(whole)[: len(rows)] - known, 1e-12)))

    def _noise(self, scale: float) -> Floats:
        return np.asarray(scale * self._errors**2 + self._misfit)

    def _given(self, values: Floats) -> Function:
        """The mean of a function, given its noisy values at the trials."""
        weights = self._inverse @ values
        size, columns = self._variances, self._rows.T
        alone = [
            size[c] * (kernels.alone[:, columns[c]] @ weights)
            for c, kernels in enumerate(self._kernels)
        ]
        paired = []
        for j, k in self._pairs:
            left, right = self._kernels[j].paired[:, columns[j]], self._kernels[k].paired
            table = (left * weights) @ right[:, columns[k]].T
            paired.append((j, k, self._pair_size(j, k) * table))
        return Function(float(weights.sum()), alone, paired)

    def _drawn(self, source: np.random.Generator) -> Function:
        """A function as the model has it without any trial."""
        alone = [
            math.sqrt(self._variances[c]) * (root.alone @ source.standard_normal(len(root.alone)))
            for c, root in enumerate(self._roots)
        ]
        paired = []
        for j, k in self._pairs:
            left, right = self._roots[j].paired, self._roots[k].paired
            normal = source.standard_normal((len(left), len(right)))
            paired.append((j, k, math.sqrt(self._pair_size(j, k)) * (left @ normal @ right.T)))
        return Function(float(source.standard_normal()), alone, paired)

    def _pair_size(self, one: int, other: int) -> float:
        sizes = self._variances
        return float(sizes[-2] * math.sqrt(sizes[one] * sizes[other]))

    def _most_likely(self, terms: _Terms) -> Floats:
        """The logarithms of the variances with the highest posterior probability."""
        from scipy.optimize import minimize

        count, (own, pairs, noise) = len(self._kernels), _WIDTHS
        widths = np.array([own] * count + [pairs, noise])

        def loss(values: Floats) -> tuple[float, Floats]:
            sizes = np.exp(values)
            errors = sizes[-1] * self._errors**2
            inverse = _inverse(terms.covariance(sizes) + np.diag(errors + self._misfit) + 1.0)
            weights = inverse @ self._logs
            away = (values - self._prior) / widths
            height = self._logs @ weights - np.linalg.slogdet(inverse)[1] + away @ away
            pull = inverse - np.outer(weights, weights)
            slopes = [*terms.slopes(sizes, pull), np.diag(pull) @ errors]
            return 0.5 * float(height), 0.5 * np.array(slopes) + away / widths

        bounds = [(-12.0, 2.0)] * count + [(-10.0, 2.0), (-2.0, 2.5)]
        found = minimize(
            loss,
            self._logs_of,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _STEPS},
        )
        return np.asarray(found.x, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The kernels of each name between some rows; `sizes` are the variances of the names, then the
    pairs' share."""

    alone: Sequence[Floats]
    paired: Sequence[Floats]

    def covariance(self, sizes: Floats) -> Floats:
        parts = zip(sizes, self.alone, strict=False)
        return np.asarray(sum(size * kernel for size, kernel in parts) + self._pairs(sizes)[1])

    def slopes(self, sizes: Floats, pull: Floats) -> list[float]:
        """How the covariance changes with each size's logarithm, weighed by `pull`."""
        scaled, pairs = self._pairs(sizes)
        total = np.sum(scaled, axis=0)
        changes = [
            size * kernel + 0.5 * sizes[-2] * part * (total - part)
            for size, kernel, part in zip(sizes, self.alone, scaled, strict=False)
        ]
        return [float((pull * change).sum()) for change in [*changes, pairs]]

    def _pairs(self, sizes: Floats) -> tuple[list[Floats], Floats]:
        scaled = [math.sqrt(s) * k for s, k in zip(sizes, self.paired, strict=False)]
        total, squares = np.sum(scaled, axis=0), np.sum([part**2 for part in scaled], axis=0)
        return scaled, sizes[-2] * (total**2 - squares) / 2


def _root(kernel: Floats) -> Floats:
    return np.asarray(np.linalg.cholesky(kernel + 1e-9 * np.eye(len(kernel))))


def _inverse(covariance: Floats) -> Floats:
    half = np.linalg.inv(np.linalg.cholesky(covariance))
    return np.asarray(half.T @ half)


_SCALE = 3.0
"""The place of the highest number; the lowest is at minus this."""
_WEIGHT = 2.5
"""The standard deviation of a weight before any trial."""


class Feasibility:
    """The model of one space; `fit` it to trials, then ask for `probability`."""

    def __init__(self, space: Space) -> None:
        self._features = [_features(choices) for choices in space.values()]
        count = 1 + sum(part.shape[1] for part in self._features)
        self._weights = np.zeros(count)

    def fit(self, rows: Indices, runs: Sequence[bool]) -> None:
        """Take trials: their settings, and whether they ran."""
        from scipy.optimize import minimize

        known, signs = self._seen(rows), np.where(runs, 1.0, -1.0)

        def loss(weights: Floats) -> tuple[float, Floats]:
            margins = signs * (known @ weights)
            wrong = np.exp(-np.logaddexp(0.0, margins))
            height = np.logaddexp(0.0, -margins).sum() + 0.5 * weights @ weights / _WEIGHT**2
            return float(height), weights / _WEIGHT**2 - known.T @ (signs * wrong)

        found = minimize(loss, self._weights, jac=True, method="L-BFGS-B")
        self._weights = np.asarray(found.x, dtype=np.float64)
        odds = np.exp(-np.logaddexp(0.0, -(known @ self._weights)))
        curvature = (known * (odds * (1 - odds))[:, None]).T @ known
        self._spread = np.linalg.inv(curvature + np.eye(len(self._weights)) / _WEIGHT**2)

    def probability(self, rows: Indices) -> Floats:
        """How likely each row is to run."""
        asked = self._seen(rows)
        variance = np.einsum("ij,ij->i", asked @ self._spread, asked)
        margin = asked @ self._weights / np.sqrt(1 + math.pi * variance / 8)
        return np.asarray(np.exp(-np.logaddexp(0.0, -margin)))

    def _seen(self, rows: Indices) -> Floats:
        parts = [part[rows[:, column]] for column, part in enumerate(self._features)]
        return np.concatenate([np.ones((len(rows), 1)), *parts], axis=1)


def _features(choices: Sequence[Choice]) -> Floats:
    """A row for each choice: the number's place and whether it is the default, or a column for each
    word."""
    order = sorted(value for value in choices if is_number(value))
    if len(order) < 3:
        return np.eye(len(choices))
    step = 2 / (len(order) - 1)
    rows = [
        (_SCALE * (order.index(c) * step - 1), 0.0) if is_number(c) else (0.0, 1.0) for c in choices
    ]
    return np.array(rows)
