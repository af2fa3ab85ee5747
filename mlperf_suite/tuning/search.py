"""The search: Optuna proposes settings, and those that may be the best are measured again.

A rate that one short run shows is mostly luck among the highest of many, so about a quarter of the
trials go to repeats of settings whose interval still reaches the best one's. What comes out is a
candidate, not a winner: `claim` decides on runs that the search has not seen.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from mlperf_suite.errors import UsageError
from mlperf_suite.tuning.space import Choice, Settings, Space, Trial

Sampler = Literal["gp", "random"]
Measure = Callable[[Settings], Trial]
_START = 10
"""Random trials before the sampler has a model of the engine."""
_WIDE = 1.6
"""Standard errors by which an interval reaches to each side: a candidate is only left out, never
declared worse, so about nine in ten are enough."""
_REPEAT_FROM = 0.75
"""The share of the trials after which repeats begin."""
_LEAST_NOISE = 0.01
"""Two runs of the same settings differ by at least this, whatever the blocks of one show."""

Key = tuple[tuple[str, Choice], ...]


class TuningSearch:
    """The trials so far, and which one comes next."""

    def __init__(self, space: Space, seed: int, sampler: Sampler = "gp") -> None:
        try:
            import optuna
        except ImportError as error:
            raise UsageError(
                "tune: needs Optuna and torch; install mlperf-suite[tune]: " + str(error)
            ) from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna = optuna
        self._space = space
        self._distributions = {
            name: optuna.distributions.CategoricalDistribution(range(len(choices)))
            if None in choices
            else optuna.distributions.IntDistribution(0, len(choices) - 1)
            for name, choices in space.items()
        }
        samplers: Mapping[str, Any] = optuna.samplers.__dict__
        kind = {"gp": "GPSampler", "random": "RandomSampler"}[sampler]
        more = {"n_startup_trials": _START} if sampler == "gp" else {}
        self._study = optuna.create_study(
            direction="maximize", sampler=samplers[kind](seed=seed, **more)
        )
        self.trials: list[Trial] = []

    def add(self, trial: Trial) -> None:
        """Take a measured trial, also one of an earlier, interrupted search."""
        self.trials.append(trial)
        indices = {
            name: choices.index(trial.settings[name]) for name, choices in self._space.items()
        }
        state = self._optuna.trial.TrialState
        rate = trial.rate
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params=indices,
                distributions=self._distributions,
                value=rate and math.log(rate),
                state=state.FAIL if rate is None else state.COMPLETE,
            )
        )

    def following(self, spent: float) -> Settings:
        """The settings to measure next. `spent`: the share of the budget that is used up."""
        candidates = self.candidates()
        if not self.trials:
            return {name: choices[0] for name, choices in self._space.items()}
        if spent >= _REPEAT_FROM and len(candidates) > 1:
            logs = self._logs()
            fewest: Key = min(candidates, key=lambda key: len(logs[key]))
            return dict(fewest)
        proposal = self._study.ask(self._distributions)
        self._study.tell(proposal, state=self._optuna.trial.TrialState.FAIL)
        return {name: self._space[name][index] for name, index in proposal.params.items()}

    def candidates(self) -> list[Key]:
        """The settings whose interval reaches the best one's lower end, the best first."""
        means = {key: statistics.fmean(logs) for key, logs in self._logs().items()}
        if not means:
            return []
        reach = {key: _WIDE * self._error(key) for key in means}
        bar = max(means[key] - reach[key] for key in means)
        kept = [key for key in means if means[key] + reach[key] >= bar]
        return sorted(kept, key=lambda key: reach[key] - means[key])

    def _logs(self) -> dict[Key, list[float]]:
        logs: dict[Key, list[float]] = {}
        for trial in self.trials:
            if trial.rate is not None:
                logs.setdefault(tuple(trial.settings.items()), []).append(math.log(trial.rate))
        return logs

    def _error(self, key: Key) -> float:
        """The standard error of the mean logarithm: of repeats as they differ, never below what a
        run says of itself."""
        logs = self._logs()
        repeats = [values for values in logs.values() if len(values) > 1]
        degrees = sum(len(values) - 1 for values in repeats)
        squares = sum(statistics.variance(v) * (len(v) - 1) for v in repeats)
        between = math.sqrt(squares / degrees) if degrees >= 3 else 0.0
        within = _within(self.trials)
        return max(between, within, _LEAST_NOISE) / math.sqrt(len(logs[key]))


def _within(trials: Iterable[Trial]) -> float:
    return statistics.median([t.error for t in trials if t.rate is not None])
