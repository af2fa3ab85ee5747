"""A percentile as LoadGen takes it: one of the values, never one between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p97": 0.97, "p99": 0.99, "p99.9": 0.999}
"""The percentiles that a summary has of a run's times, by their names."""


def place(count: int, share: float) -> int:
    """Where it stands in `count` sorted values: loadgen/results.cc, LoadGen 4.1 to 6.0, takes the
    value at `count * share`, a product of doubles, cut to a whole number."""
    return min(int(count * share), count - 1)


def percentile(ordered: Sequence[float] | npt.NDArray[Any], share: float) -> float:
    """The percentile of sorted values, at least one; `share`: 0.99 is the 99th."""
    return float(ordered[place(len(ordered), share)])


def percentiles(values: npt.NDArray[Any]) -> dict[str, float]:
    """Those of `SHARES` of these values, in any order; empty where there are none."""
    import numpy as np

    ordered = np.sort(values)
    return {name: percentile(ordered, share) for name, share in SHARES.items() if len(ordered)}
