"""With -m curve: system tokens/s over tokens/s per user, at fixed concurrencies."""

import warnings

import pytest

pytestmark = pytest.mark.curve


def test_every_point_is_measured(curve):
    """Each planned concurrency has figures, or was found to be past the knee."""
    known = ("measured", "over-saturated", "not run")
    unknown = [point for point in curve.points if point.outcome not in known]
    assert not unknown, "; ".join(f"{p.concurrency}: {p.outcome}: {p.reason}" for p in unknown)


def test_c_max_is_found(curve):
    """The highest throughput lies at a concurrency above 32, as a curve of the series needs; one
    at a lower one gives a warning."""
    assert curve.c_max is not None
    if curve.c_max <= 32:
        words = f"C_max {curve.c_max}: a curve of the series needs one above 32"
        warnings.warn(words, stacklevel=1)
