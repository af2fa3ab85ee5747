"""How several engines compare with one of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from mlperf_suite.results.schema import ScalingFigures

_LEVEL = 0.95


def scaling_figures(replicas: int, pairs: Sequence[tuple[float, float]]) -> ScalingFigures:
    """The figures of pairs of tokens/s, of one engine alone and of all.

    The interval is Student's t over the pairs' efficiencies; of a single pair it is none, and both
    ends are the efficiency itself.
    """
    from scipy.stats import t

    shares = [together / (replicas * one) for one, together in pairs]
    found, count = mean(shares), len(shares)
    half = 0.0
    if count > 1:
        half = float(t.ppf((1 + _LEVEL) / 2, count - 1)) * stdev(shares) / count**0.5
    return ScalingFigures(
        replicas,
        count,
        round(mean(one for one, _ in pairs), 3),
        round(mean(together for _, together in pairs), 3),
        round(found, 5),
        round(found - half, 5),
        round(found + half, 5),
    )
