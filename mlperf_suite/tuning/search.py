"""The search: trials spread over the space, then those that a model of the engine expects most of.

The last quarter goes to what the model holds for the best, which repeats the best settings as often
as their likeness to others leaves doubt. The candidate is the setting with the highest mean in the
model, not the one with the highest run: among sixty noisy runs the highest is mostly luck. It is no
winner yet: `claim` decides on runs that the search has not seen.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence

import numpy as np

from mlperf_suite.tuning.space import Choice, Settings, Space, Trial
from mlperf_suite.tuning.surrogate import Floats, Indices, Surrogate

_START = 12
"""Trials spread over the space before the model proposes, the default among them."""
_START_UNTIL = 0.25
"""The share of the budget after which the model proposes, however few trials there are."""
_FINAL_FROM = 0.73
"""The share of the budget after which nothing new is explored for its own sake."""
_REFIT = 4
"""Trials between two fits of the model's variances."""
_MOST_ROWS = 10_000
"""Larger spaces are sampled at each proposal."""
_LEAST_NOISE = 0.01
"""Two runs of the same settings differ by at least this, whatever the blocks of one show."""
_SUCCESS_NOISE = 0.2
"""The noise of the model of failures, in which a trial that runs is 1 and a failed one 0."""
_SAFE = 0.6
"""The lowest value in it of settings that the last trials may go to."""


class TuningSearch:
    """The trials so far, which one comes next, and which settings are the best."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._random = random.Random(seed)  # noqa: S311 - an order, no secret
        self._start = _spread(space, self._random)
        self._rates, self._successes = Surrogate(space), Surrogate(space)
        self.trials: list[Trial] = []

    def add(self, trial: Trial) -> None:
        """Take a measured trial, also one of an earlier, interrupted search."""
        self.trials.append(trial)

    def following(self, spent: float) -> Settings:
        """The settings to measure next. `spent`: the share of the budget that is used up."""
        done = len(self.trials)
        if done < 2 or (done < _START and spent < _START_UNTIL):
            return self._settings(self._start[done])
        rows = self._rows()
        value = self._value(rows, is_final=spent >= _FINAL_FROM)
        return self._settings(rows[int(np.argmax(value))])

    def best(self) -> Settings:
        """Of the settings that ran, those with the highest mean in the model."""
        rows = self._fit(is_last=True)
        return self._settings(rows[int(np.argmax(self._rates.posterior(rows).mean))])

    def around(self, best: Settings) -> list[tuple[str, Choice, float]]:
        """By name and each other choice, how the rate changes in the model, relative to `best`."""
        self._fit(is_last=True)
        others = [
            (name, choice)
            for name, choices in self._space.items()
            for choice in choices
            if choice != best[name]
        ]
        rows = self._indices([best, *({**best, name: choice} for name, choice in others)])
        means = self._rates.posterior(rows).mean
        changes = np.expm1(means[1:] - means[0])
        return [(*other, float(change)) for other, change in zip(others, changes, strict=True)]

    def _value(self, rows: Indices, is_final: bool) -> Floats:
        measured = self._fit(is_last=False)
        model, seen = self._rates.posterior(rows), self._rates.posterior(measured)
        safe = self._safe(rows)
        if is_final:
            return np.where(safe >= _SAFE, model.mean + model.deviation, safe - 1e6)
        target = seen.mean[int(np.argmax(seen.mean - seen.deviation))]
        return safe * _expected_improvement(model.mean - target, model.deviation, self._rates.noise)

    def _fit(self, is_last: bool) -> Indices:
        """Fit the model to the trials that have a rate; their rows."""
        done = [trial for trial in self.trials if trial.rate is not None]
        rows = self._indices([trial.settings for trial in done])
        logs = np.array([math.log(trial.rate or 1.0) for trial in done])
        noise = max(statistics.median([trial.error for trial in done]), _LEAST_NOISE)
        self._rates.fit(rows, logs, noise, is_last or len(self.trials) % _REFIT == 0)
        return rows

    def _safe(self, rows: Indices) -> Floats:
        """How likely a row is to run, between 0 and 1."""
        runs = np.array([float(trial.rate is not None) for trial in self.trials])
        if runs.all():
            return np.ones(len(rows))
        tried = self._indices([trial.settings for trial in self.trials])
        self._successes.fit(tried, runs, _SUCCESS_NOISE, len(runs) % _REFIT == 0)
        return np.clip(self._successes.posterior(rows).mean, 0.01, 1.0)

    def _rows(self) -> Indices:
        counts = [range(len(choices)) for choices in self._space.values()]
        if math.prod(map(len, counts)) <= _MOST_ROWS:
            return np.array(list(itertools.product(*counts)), dtype=np.intp)
        drawn = [[self._random.choice(count) for count in counts] for _ in range(_MOST_ROWS)]
        tried = self._indices([trial.settings for trial in self.trials])
        return np.concatenate([tried, *_neighbours(tried, counts), np.array(drawn, dtype=np.intp)])

    def _indices(self, settings: Sequence[Settings]) -> Indices:
        rows = [[choices.index(s[n]) for n, choices in self._space.items()] for s in settings]
        return np.array(rows, dtype=np.intp).reshape(len(rows), len(self._space))

    def _settings(self, row: Sequence[int] | Indices) -> Settings:
        return {
            name: choices[int(index)]
            for (name, choices), index in zip(self._space.items(), row, strict=True)
        }


def _spread(space: Space, source: random.Random) -> list[tuple[int, ...]]:
    """The default, then settings in which each choice of a name comes about equally often (a Latin
    hypercube)."""
    columns = []
    for choices in space.values():
        column = [
            int((i + source.random()) * len(choices) / (_START - 1)) for i in range(_START - 1)
        ]
        source.shuffle(column)
        columns.append(column)
    return [(0,) * len(columns), *zip(*columns, strict=True)]


def _neighbours(rows: Indices, counts: Sequence[range]) -> list[Indices]:
    """All rows that differ from a row in one name."""
    changed = []
    for column, count in enumerate(counts):
        for index in count:
            copy = rows.copy()
            copy[:, column] = index
            changed.append(copy)
    return changed


def _expected_improvement(gain: Floats, deviation: Floats, noise: float) -> Floats:
    """The augmented expected improvement: less where a noisy run would teach little (Huang et al.,
    Global optimization of stochastic black-box systems, 2006, equation 13)."""
    from scipy.special import ndtr

    z = gain / deviation
    improvement = deviation * np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) + gain * ndtr(z)
    return np.asarray(improvement * (1 - noise / np.hypot(deviation, noise)))
