"""How often the regression gate is wrong about curves, counted in many drawn histories.

perf/curve_gate.py prints the same shares of more histories."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perf.curve_gate import CURVE_CASES, share_of_curve_jobs

HISTORIES = 150
ALLOWANCE = 3 * math.sqrt(0.05 * 0.95 / HISTORIES)
"""Three standard deviations of a share counted in so many histories."""


@pytest.mark.parametrize("case", CURVE_CASES)
def test_of_jobs_with_an_unchanged_curve_at_most_one_in_twenty_fails(case: str) -> None:
    share = share_of_curve_jobs(CURVE_CASES[case], 0.03, 0.0, HISTORIES, np.random.default_rng(7))
    assert share <= 0.05 + ALLOWANCE


def test_a_curve_that_lost_10_percent_is_found_at_1_percent_noise() -> None:
    for case in CURVE_CASES.values():
        assert share_of_curve_jobs(case, 0.01, 0.1, 20, np.random.default_rng(7)) >= 0.95
