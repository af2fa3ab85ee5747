"""The search: a few trials spread over the space, then the trials that a model of the engine
proposes.

Each proposal is the best setting of one function drawn from the model, that is, of one engine that
the trials so far allow (Thompson sampling). Settings come up as often as they may be the best, and
those that do share most of their choices, so a run that tells two values of one setting apart also
tells two of the next: as in a factorial design among what is left. The same draws then repeat the
best few, and there is no change to a final phase.

The result is the setting with the highest mean in the model of the trials that ran, not the one
with the highest run: among sixty noisy runs the highest is mostly luck. It is no winner yet:
`claim` decides on runs that the search has not seen.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np

from mlperf_suite.features.tuning.conditions import Conditions
from mlperf_suite.features.tuning.early_stopping import Estimate
from mlperf_suite.features.tuning.space import Choice, Settings, Space, Trial
from mlperf_suite.features.tuning.surrogate import Feasibility, Floats, Indices, Surrogate

_START = 8
"""Trials spread over the space before the model proposes, the default among them."""
_START_UNTIL = 0.25
"""The share of the budget after which the model proposes, however few trials there are."""
_MIN_TRIALS_TO_COMBINE = 20
"""With fewer trials in all, as the first ones took so long, each trial of the start changes one
setting of the default: the others could each hold something that fails."""
_SINGLE_UNTIL = 0.7
"""The same where each changes one setting: with so few, combinations drawn at random teach less."""
_FINAL_FROM = 0.7
"""The share of the budget after which a trial goes only to settings that are likely to run."""
_SAFE = 0.6
"""How likely."""
_REFIT = 4
"""Trials between two fits of the model's variances."""
_MAX_GRID_ROWS = 20_000
"""Larger spaces are sampled at each proposal, by half of this."""
_MIN_NOISE = 0.01
"""Two runs of the same settings differ by at least this, whatever the blocks of one show."""


class TuningSearch:
    """The trials so far, which one comes next, and which settings are the best.

    `conditions`: which choices go together; the default's must.
    """

    def __init__(self, space: Space, seed: int, conditions: Conditions = ()) -> None:
        self._space, self._conditions = space, conditions
        self._random = np.random.default_rng(seed)
        self._counts = [len(choices) for choices in space.values()]
        self._every = _every(self._counts) if math.prod(self._counts) <= _MAX_GRID_ROWS else None
        if self._every is not None:
            self._every = self._allowed(self._every)
        self._start = self._allowed(_spread(self._counts, self._random))
        self._single = self._allowed(_one_by_one(self._counts))
        self._rates, self._feasibility = Surrogate(space), Feasibility(space)
        self.trials: list[Trial] = []

    def add(self, trial: Trial) -> None:
        """Take a measured trial, also one of an earlier, interrupted search."""
        self.trials.append(trial)

    def following(self, spent: float, pending: Sequence[Settings] = ()) -> Settings:
        """The settings to measure next. `spent`: the share of the budget that is used up.
        `pending`: those that are being measured, which are not proposed again."""
        done = len(self.trials) + len(pending)
        is_first = sum(trial.rate is not None for trial in self.trials) < 2
        few = bool(done) and spent / done > 1 / _MIN_TRIALS_TO_COMBINE
        start, until = (self._single, _SINGLE_UNTIL) if few else (self._start, _START_UNTIL)
        if done < len(start) and (is_first or spent < until):
            return self._settings(start[done])
        rows = self._rows()
        if is_first:
            return self._settings(rows[self._random.integers(len(rows))])
        self._fit(is_last=False)
        drawn = self._rates.draw(rows, self._random)
        bar = _SAFE if spent >= _FINAL_FROM else self._random.uniform()
        safe = self._safe(rows)
        value = np.where(safe >= min(bar, safe.max()), drawn, -np.inf)
        for taken in self._indices(pending):
            value[(rows == taken).all(axis=1)] = -np.inf
        return self._settings(rows[int(np.argmax(value))])

    def best(self) -> Settings:
        """The settings that ran with the highest mean in the model."""
        rows = self._fit(is_last=True)
        return self._settings(rows[int(np.argmax(self._rates.mean(rows)))])

    def leader(self) -> Estimate | None:
        """The rate of the best settings in the model; None before two trials have run."""
        if sum(trial.rate is not None for trial in self.trials) < 2:
            return None
        rows = self._fit(is_last=False)
        means = self._rates.mean(rows)
        best = int(np.argmax(means))
        deviation = self._rates.deviations(rows[best : best + 1])
        return Estimate(float(means[best]), float(deviation[0]))

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
        means = self._rates.mean(rows)
        changes = np.expm1(means[1:] - means[0])
        return [(*other, float(change)) for other, change in zip(others, changes, strict=True)]

    def _fit(self, is_last: bool) -> Indices:
        """Fit the model to the trials that have a rate; their rows."""
        done = [trial for trial in self.trials if trial.rate is not None]
        rows = self._indices([trial.settings for trial in done])
        logs = np.array([math.log(trial.rate or 1.0) for trial in done])
        # How certain a run was is itself known from few blocks, so no run counts more than most.
        usual = max(statistics.median(trial.error for trial in done), _MIN_NOISE)
        errors = np.maximum([trial.error for trial in done], usual)
        self._rates.fit(rows, logs, errors, is_last or len(self.trials) % _REFIT == 0)
        return rows

    def _safe(self, rows: Indices) -> Floats:
        """How likely each row is to run, between 0 and 1."""
        runs = [trial.rate is not None for trial in self.trials]
        if all(runs):
            return np.ones(len(rows))
        self._feasibility.fit(self._indices([trial.settings for trial in self.trials]), runs)
        return self._feasibility.probability(rows)

    def _rows(self) -> Indices:
        if self._every is not None:
            return self._every
        drawn = self._random.integers(self._counts, size=(_MAX_GRID_ROWS // 2, len(self._counts)))
        tried = self._indices([trial.settings for trial in self.trials])
        return self._allowed(np.concatenate([tried, *_neighbours(tried, self._counts), drawn]))

    def _allowed(self, rows: Indices) -> Indices:
        for condition in self._conditions:
            rows = rows[condition.allowed(rows)]
        return rows

    def _indices(self, settings: Sequence[Settings]) -> Indices:
        rows = [[choices.index(s[n]) for n, choices in self._space.items()] for s in settings]
        return np.array(rows, dtype=np.intp).reshape(len(rows), len(self._space))

    def _settings(self, row: Sequence[int] | Indices) -> Settings:
        return {
            name: choices[int(index)]
            for (name, choices), index in zip(self._space.items(), row, strict=True)
        }


def _every(counts: Sequence[int]) -> Indices:
    return np.array(list(itertools.product(*map(range, counts))), dtype=np.intp)


def _spread(counts: Sequence[int], source: np.random.Generator) -> Indices:
    """The default, then settings in which each choice of a name comes about equally often (a Latin
    hypercube)."""
    rows = np.zeros((_START, len(counts)), dtype=np.intp)
    for column, count in enumerate(counts):
        places = np.arange(_START - 1) + source.uniform(size=_START - 1)
        rows[1:, column] = source.permutation(places * count // (_START - 1))
    return rows


def _one_by_one(counts: Sequence[int]) -> Indices:
    """The default, then for each name its first other choice, the rest as the default."""
    return np.concatenate(
        [np.zeros((1, len(counts))), np.eye(len(counts))[np.array(counts) > 1]],
        dtype=np.intp,
        casting="unsafe",
    )


def _neighbours(rows: Indices, counts: Sequence[int]) -> list[Indices]:
    """All rows that differ from a row in one name."""
    changed = []
    for column, count in enumerate(counts):
        for index in range(count):
            copy = rows.copy()
            copy[:, column] = index
            changed.append(copy)
    return changed
