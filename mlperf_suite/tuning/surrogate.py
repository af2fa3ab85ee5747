"""A model of the engine's rate over its settings: what each adds, and what two add together.

A run differs from the next one of the same settings by several percent, more than the best
settings differ from their neighbours. So settings are compared by a regression over all trials,
not by their own runs alone: each trial says something about every setting that shares a value
with it. The model is a Gaussian process whose kernel is a sum over settings and over pairs of
settings (the functional ANOVA of Duvenaud et al., Additive Gaussian Processes, 2011); its
variances are those with the highest likelihood (Rasmussen and Williams 2006, section 5.4.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from mlperf_suite.tuning.space import Choice, Space

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
"""A row for each setting of the engine as a whole, a column for each name: the choice's number."""

_LENGTHS = (0.2, 0.7)
"""How far values of a number resemble each other, in shares of its range: a cliff and a trend."""
_SPREAD = 0.2
"""What one setting is expected to change, in logarithms: 0.2 is 20%. The data decide."""
_PAIR_SPREAD = _SPREAD / 12
"""The same for each pair of settings, of which there are many more."""
_STEPS = 30
"""Steps of a fit; the next one goes on from there."""
_PRIOR_WIDTH = 1.5
"""The standard deviation of each variance's logarithm around what is expected of it."""


def is_number(choice: Choice) -> TypeGuard[float]:
    """Whether a choice has a place among others: a switch, a word and the default have none."""
    return isinstance(choice, int | float) and not isinstance(choice, bool)


def similarities(choices: Sequence[Choice]) -> list[Floats]:
    """How alike the choices of one name are, at each of the lengths.

    Numbers lie in the order and at the distance in which the space lists them, which is a
    logarithmic scale where they double; words, booleans and the default are like nothing else.
    """
    order = sorted(value for value in choices if is_number(value))
    if len(order) < 3:
        return [np.eye(len(choices))]
    places = [order.index(value) if is_number(value) else None for value in choices]
    kernels = []
    for length in _LENGTHS:
        kernel = np.eye(len(choices))
        for i, one in enumerate(places):
            for j, other in enumerate(places):
                if one is not None and other is not None:
                    distance = abs(one - other) / (len(order) - 1) / length
                    kernel[i, j] = math.exp(-0.5 * distance**2)
        kernels.append(kernel)
    return kernels


@dataclass(frozen=True, slots=True)
class Posterior:
    """The mean and the standard deviation of the logarithm of the rate, for each row asked for."""

    mean: Floats
    deviation: Floats


class Surrogate:
    """The model of one space; `fit` it to trials, then ask for `posterior`."""

    def __init__(self, space: Space) -> None:
        self._kernels = [similarities(choices) for choices in space.values()]
        self._columns = [c for c, kernels in enumerate(self._kernels) for _ in kernels]
        self._count = len(self._columns) + 2
        self._variances = np.full(self._count, math.nan)
        self._rows: Indices = np.zeros((0, len(space)), dtype=np.intp)
        self._logs: Floats = np.zeros(0)
        self._level = 0.0

    def fit(self, rows: Indices, logs: Floats, noise: float, refits: bool) -> None:
        """Take trials. `noise`: the standard deviation of a run's logarithm, as the runs say
        themselves. `refits`: whether the variances are fitted anew, which takes the longest."""
        self._rows, self._logs, self._level = rows, logs - logs.mean(), float(logs.mean())
        prior = self._expected(noise)
        if is_first := bool(np.isnan(self._variances).any()):
            self._variances = prior.copy()
        parts = self._parts(rows, rows)
        parts.append(np.eye(len(rows)))
        if refits or is_first:
            self._variances = _most_likely(parts, self._logs, self._variances, prior)
        covariance: Floats = np.tensordot(np.exp(self._variances), np.stack(parts), axes=1)
        factor = np.linalg.cholesky(covariance + _constant(rows, rows))
        self._factor: Floats = np.asarray(factor, dtype=np.float64)
        self._weights = _solve(self._factor, self._logs)

    @property
    def noise(self) -> float:
        """The standard deviation of one run's logarithm around the model."""
        return math.exp(self._variances[-1] / 2)

    def posterior(self, rows: Indices) -> Posterior:
        """What the model says of these rows, `fit` done."""
        variances = np.exp(self._variances[:-1])
        from scipy.linalg import solve_triangular

        names = range(len(self._kernels))
        cross = _constant(rows, self._rows)
        total, squares = np.zeros_like(cross), np.zeros_like(cross)
        for name, kernels in enumerate(self._kernels):
            own = variances[[column == name for column in self._columns] + [False]]
            weighed = sum(v * k for v, k in zip(own, kernels, strict=True))
            where = np.ix_(rows[:, name], self._rows[:, name])
            cross += weighed[where]
            broad = kernels[-1][where]
            total += broad
            squares += broad**2
        cross += variances[-1] * (total**2 - squares) / 2
        prior = 1.0 + variances[:-1].sum() + variances[-1] * len(names) * (len(names) - 1) / 2
        half = solve_triangular(self._factor, cross.T, lower=True)
        variance = np.maximum(prior - (half**2).sum(axis=0), 1e-12)
        return Posterior(cross @ self._weights + self._level, np.sqrt(variance))

    def _expected(self, noise: float) -> Floats:
        single = [2 * math.log(_SPREAD / math.sqrt(len(self._kernels[c]))) for c in self._columns]
        return np.array([*single, 2 * math.log(_PAIR_SPREAD), 2 * math.log(noise)])

    def _parts(self, left: Indices, right: Indices) -> list[Floats]:
        """The kernel's terms: each name at each length, and all pairs of names together."""
        parts: list[Floats] = []
        total, squares = np.zeros((len(left), len(right))), np.zeros((len(left), len(right)))
        for column, kernels in enumerate(self._kernels):
            of_name = [k[np.ix_(left[:, column], right[:, column])] for k in kernels]
            parts += of_name
            total += of_name[-1]
            squares += of_name[-1] ** 2
        return [*parts, (total**2 - squares) / 2]


def _constant(left: Indices, right: Indices) -> Floats:
    return np.full((len(left), len(right)), 1.0)


def _solve(factor: Floats, values: Floats) -> Floats:
    return np.linalg.solve(factor.T, np.linalg.solve(factor, values))


def _most_likely(parts: list[Floats], logs: Floats, start: Floats, prior: Floats) -> Floats:
    """The logarithms of the variances with the highest posterior probability."""
    from scipy.optimize import minimize

    stack = np.stack(parts)
    constant = np.ones_like(parts[0])

    def loss(values: Floats) -> tuple[float, Floats]:
        scaled = np.exp(values)[:, None, None] * stack
        inverse_factor = np.linalg.inv(np.linalg.cholesky(scaled.sum(axis=0) + constant))
        inverse = inverse_factor.T @ inverse_factor
        weights = inverse @ logs
        away = (values - prior) / _PRIOR_WIDTH
        value = 0.5 * logs @ weights - np.log(np.diag(inverse_factor)).sum() + 0.5 * away @ away
        slopes = 0.5 * np.einsum("kij,ij->k", scaled, inverse - np.outer(weights, weights))
        return float(value), slopes + away / _PRIOR_WIDTH

    bounds = [(-14.0, 2.0)] * (len(parts) - 1) + [(-11.0, 0.0)]
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}
    )
    return np.asarray(found.x, dtype=np.float64)
