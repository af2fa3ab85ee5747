"""Percentiles as LoadGen takes them: always one of the values, without interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p97": 0.97, "p99": 0.99, "p99.9": 0.999}
"""The percentiles in a summary of a run's times, by name."""


def percentile(ascending: Sequence[float] | npt.NDArray[Any], share: float) -> float:
    """The percentile of sorted values, at least one; a `share` of 0.99 is the 99th.

    loadgen/results.cc, LoadGen 4.1 to 6.0, takes the value at `count * share`, a product of
    doubles, truncated to an integer.
    """
    return float(ascending[min(int(len(ascending) * share), len(ascending) - 1)])


def distribution(values: npt.NDArray[Any]) -> dict[str, float]:
    """The mean and the percentiles in `SHARES` of these values, in any order, nan left out; empty
    if there are no values."""
    import numpy as np

    ascending = np.sort(values[~np.isnan(values)])
    if not len(ascending):
        return {}
    named = {name: percentile(ascending, share) for name, share in SHARES.items()}
    return {"mean": float(ascending.mean()), **named}
