"""With -m curve: system tokens/s over tokens/s per user, at fixed concurrencies."""

import warnings

import pytest

pytestmark = pytest.mark.curve


def test_every_point_is_measured(curve_run):
    """Each planned concurrency has figures, or was found to be past the knee."""
    known = ("measured", "over-saturated", "not run")
    unknown = [point for point in curve_run.points if point.outcome not in known]
    assert not unknown, "; ".join(f"{p.concurrency}: {p.outcome}: {p.reason}" for p in unknown)


def test_c_max_is_found(curve_run):
    """The highest throughput lies at a concurrency above 32, as a curve of the series needs; one
    at a lower one gives a warning."""
    assert curve_run.c_max is not None
    if curve_run.c_max <= 32:
        words = f"C_max {curve_run.c_max}: a curve of the series needs one above 32"
        warnings.warn(words, stacklevel=1)


def test_area(curve_change):
    """The curve has not lost more of its area than --max-regression or the noise."""
    curve_change.is_no_regression()
