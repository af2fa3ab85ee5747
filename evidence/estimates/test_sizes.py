"""Properties of the forecast times and of the sizes of smoke runs, on machines fast and slow."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from operator import mul
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.session.timing import estimate
from mlperf_suite.session.timing.estimate import (
    AUDIT_RUNGS,
    RUNGS,
    SIZES,
    Lengths,
    Rungs,
    RunTimes,
    Size,
    Speed,
    size_that_fits,
)

OFFLINE, SERVER = LLAMA3_1_8B.scenario("Offline"), LLAMA3_1_8B.scenario("Server")
STREAM = LLAMA3_1_8B_EDGE.scenario("SingleStream")
LENGTHS = Lengths([400] * 84, 101)
SPEED = Speed(prefill_s=0.0001, step_s=0.01, request_s=0.002)
AFTER = estimate.AFTER_RUN_S


def seconds(
    scenario: Any, mode: Mode, samples: int = 84, queries: int | None = None, **options: Any
) -> float:
    """Of a run, without the time to judge it."""
    options = {"speed": SPEED, "lengths": LENGTHS, "smoke": True, **options}
    times = RunTimes(scenario, **options)
    return times.run_s(mode, samples, queries) - AFTER


@given(st.integers(1, 84), st.sampled_from(["accuracy", "performance", "test06"]))
def test_a_slower_engine_never_takes_less(samples: int, mode: Mode) -> None:
    slow = Speed(SPEED.prefill_s * 3, SPEED.step_s * 3, SPEED.request_s * 3)
    for scenario in (OFFLINE, SERVER, STREAM):
        fast_s, slow_s = (
            seconds(scenario, mode, samples, speed=speed) + AFTER for speed in (SPEED, slow)
        )
        assert math.isfinite(slow_s)
        # Whole multiples of the samples: a slow engine may be sent one multiple less.
        assert slow_s >= fast_s * 0.66


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
