"""Which settings run: a boundary between those that did and those that failed.

Memory grows with several settings at once, so one trial that runs out of it says something about
many. A logistic regression whose weights have a normal prior (Bishop, Pattern Recognition and
Machine Learning, 2006, section 4.5: Laplace's approximation, the probit in equation 4.153) has a
slope for each number and a weight for each word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlperf_suite.features.tuning.space import Choice, Space
from mlperf_suite.features.tuning.surrogate import Floats, Indices, is_number

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
