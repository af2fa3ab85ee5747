"""How many samples a smoke run takes on machines from fast to very slow."""

from __future__ import annotations

from functools import partial
from operator import mul

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.session.timing.estimate import (
    AUDIT_RUNGS,
    RUNGS,
    SIZES,
    audit_queries_that_fit,
    samples_that_fit,
)

per_sample = st.floats(0.001, 60.0)


@given(per_sample, st.integers(1, 200))
def test_a_size_fits_its_rung_or_is_the_smallest(each_s: float, available: int) -> None:
    size = samples_that_fit(available, lambda samples: samples * each_s)
    assert size.samples <= available
    assert size.samples == available or size.samples in SIZES
    smallest = min(available, SIZES[-1])
    # One that saves less than a tenth beside the smallest is taken too.
    assert size.samples * each_s <= RUNGS[-1][0] or size.samples <= 1.1 * smallest
    assert bool(size.why) == (size.samples < available)


@given(per_sample, per_sample)
def test_within_a_rung_a_slower_machine_takes_no_more(first_s: float, second_s: float) -> None:
    fast, slow = sorted((first_s, second_s))
    rung = RUNGS[-1][0]
    # Beyond the last rung but one nothing but the last is left, and it is monotone.
    if slow * SIZES[0] > rung and fast * 24 > RUNGS[1][0]:
        sizes = [samples_that_fit(84, partial(mul, s)).samples for s in (fast, slow)]
        assert sizes[1] <= sizes[0]


def test_a_fast_machine_takes_everything_and_says_nothing() -> None:
    size = samples_that_fit(84, lambda samples: samples * 0.1)
    assert (size.samples, size.why) == (84, "")
    assert audit_queries_that_fit(lambda queries: queries * 0.1).samples == 100


def test_a_machine_too_slow_for_many_samples_is_given_more_time_first() -> None:
    # 48 samples fit into 17 s at 0.35 s each; at 0.5 s the next rung holds all 84.
    assert samples_that_fit(84, lambda n: n * 0.35).samples == 48
    assert samples_that_fit(84, lambda n: n * 0.5).samples == 84
    assert samples_that_fit(84, lambda n: n * 1.8).samples == 24
    assert samples_that_fit(84, lambda n: n * 4.0).samples == 16


def test_fewer_samples_that_save_no_time_are_not_taken() -> None:
    """SingleStream asks at least 64 queries one by one, of however few samples."""
    assert samples_that_fit(22, lambda n: 300.0).samples == 22
    assert samples_that_fit(22, lambda n: 300.0 + n).samples == 22


def test_a_reason_says_how_many_of_how_many_and_why() -> None:
    size = samples_that_fit(84, lambda samples: samples * 4.0)
    assert size.why == "16 of 84 samples: about 64 s a run on this machine"


@given(per_sample)
def test_an_audit_has_its_own_hundred_or_a_size_of_the_list(each_s: float) -> None:
    size = audit_queries_that_fit(lambda queries: queries * each_s)
    assert size.samples == 100 or size.samples in SIZES
    assert size.samples * each_s <= AUDIT_RUNGS[-1][0] or size.samples == SIZES[-1]
