"""Compares several engines with a single one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from mlperf_suite.results.schema import ScalingFigures

_LEVEL = 0.95


def scaling_figures(replicas: int, pairs: Sequence[tuple[float, float]]) -> ScalingFigures:
    """The scaling figures of pairs of tokens/s: one engine alone (the mean over the engines if they
    differ) and all together.

    The interval is Student's t over the pairs' efficiencies; a single pair has none, and both ends
    are the efficiency itself.
    """
    from scipy.stats import t

    shares = [together / (replicas * one) for one, together in pairs]
    one, together = (mean(side) for side in zip(*pairs, strict=True))
    found, count = together / (replicas * one), len(shares)
    half = 0.0
    if count > 1:
        half = float(t.ppf((1 + _LEVEL) / 2, count - 1)) * stdev(shares) / count**0.5
    return ScalingFigures(
        replicas,
        count,
        round(one, 3),
        round(together, 3),
        round(found, 5),
        round(found - half, 5),
        round(found + half, 5),
    )
