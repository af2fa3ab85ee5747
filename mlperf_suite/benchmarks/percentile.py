"""A percentile as LoadGen takes it: one of the values, never one between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt


def place(count: int, share: float) -> int:
    """Where it stands in `count` sorted values: loadgen/results.cc, LoadGen 4.1 to 6.0, takes the
    value at `count * share`, a product of doubles, cut to a whole number."""
    return min(int(count * share), count - 1)


def percentile(ordered: Sequence[float] | npt.NDArray[Any], share: float) -> float:
    """The percentile of sorted values, at least one; `share`: 0.99 is the 99th."""
    return float(ordered[place(len(ordered), share)])
