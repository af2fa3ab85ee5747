"""When a trial is ended early: it cannot win, or its answers are not accurate enough.

Pure functions of the measurements so far. Each errs with at most the probability stated here, and
`python -m perf.tuning_search --ways cuts` simulates how often it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Scores = Sequence[float] | NDArray[np.float64]

WRONG_CUT = 0.01
"""At most this share of trials of settings that equal the best is cut, all looks together."""
WRONG_REJECTION = 0.01
"""At most this share of settings that meet the gate exactly is rejected, however often checked."""
_MIN_ANSWERS = 40
"""Scores before the first rejection: the limit theorem needs some."""
_TIGHTEST = 300
"""The number of scores at which the sequence is the tightest."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean and the standard deviation of a rate's logarithm."""

    mean: float
    deviation: float


def cannot_win(rate: float, error: float, leader: Estimate, looks: int = 1) -> bool:
    """Whether a rate of a part of a run lies below the leader's, by more than chance explains.

    `error`: the relative standard error of the rate, the noise from run to run included. `looks`:
    how often this trial is looked at in all; the error probability is shared out among them.
    """
    from scipy.special import ndtri

    below = leader.mean - math.log(rate)
    return below > -float(ndtri(WRONG_CUT / looks)) * math.hypot(error, leader.deviation)


def full_rate(probe: float, leaders_probe: float, leaders_rate: float) -> float:
    """The rate that a whole run is expected to have, from a probe and both of the leader.

    A probe is compared with probes alone: it is shorter than a run and starts cold.
    """
    return probe / leaders_probe * leaders_rate


class AccuracyCheck:
    """Whether the mean score of some answers proves that the gate is missed.

    `gate`: the least mean score of the whole set. `reference`: scores of the same samples, in the
    same order, by settings whose mean over the whole set is `reference_mean`; what a sample's
    difficulty does then cancels out, and far fewer samples decide.
    """

    def __init__(self, gate: float, reference: _Scores = (), reference_mean: float = 0.0) -> None:
        self._reference = np.asarray(reference, dtype=np.float64)
        self._gate = gate - reference_mean if len(reference) else gate

    def rejects(self, scores: _Scores) -> bool:
        """Whether the upper end of a confidence sequence lies below the gate; `scores`: all so far.

        One side of the asymptotic sequence of Waudby-Smith et al. (Time-uniform central limit
        theory and asymptotic confidence sequences, 2021, proposition 2), which holds at every
        number of scores at once.
        """
        values = np.asarray(scores, dtype=np.float64)
        if len(self._reference):
            values = values[: len(self._reference)] - self._reference[: len(values)]
        count = len(values)
        if count < _MIN_ANSWERS:
            return False
        deviation = max(float(values.std(ddof=1)), 1e-12)
        return float(values.mean()) + deviation * _reach(count) < self._gate


def _reach(count: int) -> float:
    """Half the width, in standard deviations."""
    spread = _tightest_at(_TIGHTEST) * count + 1
    slack = math.log(1 + math.sqrt(spread) / (2 * WRONG_REJECTION))
    return math.sqrt(2 * spread / (count * (spread - 1)) * slack)


def _tightest_at(count: int) -> float:
    """The sequence's parameter, rho squared (the same, equation 9)."""
    slack = -2 * math.log(2 * WRONG_REJECTION) + math.log(1 - 2 * math.log(2 * WRONG_REJECTION))
    return slack / count
