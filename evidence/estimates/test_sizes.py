"""Properties of the sizes of smoke runs, on machines fast and slow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import mul

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.session.timing.estimate import (
    AUDIT_RUNGS,
    RUNGS,
    SIZES,
    Rungs,
    Size,
    size_that_fits,
)

per_sample = st.floats(0.001, 60.0)


def audit_size(seconds_of: Callable[[int], float]) -> Size:
    return size_that_fits(100, seconds_of, AUDIT_RUNGS, "queries")


@given(per_sample, st.integers(1, 200))
def test_a_size_fits_its_rung_or_is_the_smallest(each_s: float, available: int) -> None:
    size = size_that_fits(available, lambda samples: samples * each_s)
    assert size.samples <= available
    assert size.samples == available or size.samples in SIZES
    smallest = min(available, SIZES[-1])
    # One that saves less than a tenth beside the smallest is taken too.
    assert size.samples * each_s <= RUNGS[-1][0] or size.samples <= 1.1 * smallest
    assert bool(size.why) == (size.samples < available)


@given(per_sample, per_sample, st.sampled_from([RUNGS, AUDIT_RUNGS]))
def test_a_slower_machine_takes_no_more(first_s: float, second_s: float, rungs: Rungs) -> None:
    fast, slow = sorted((first_s, second_s))
    sizes = [size_that_fits(84, partial(mul, each_s), rungs).samples for each_s in (fast, slow)]
    assert sizes[1] <= sizes[0]


@given(per_sample)
def test_an_audit_has_its_own_hundred_or_a_size_of_the_list(each_s: float) -> None:
    size = audit_size(lambda queries: queries * each_s)
    assert size.samples == 100 or size.samples in SIZES
    assert size.samples * each_s <= AUDIT_RUNGS[-1][0] or size.samples == SIZES[-1]
