"""The caching audit's statistic: its interval is exact; how often it errs is evidence."""

import itertools
import math
import random

import pytest

from mlperf_suite.features.caching_audit.block_times import (
    LOOKS,
    MAX_SPEEDUP,
    RISK,
    Interval,
    interval_of,
)


def interval(pairs: list[tuple[float, float]]) -> Interval:
    estimate = interval_of(pairs)
    assert estimate is not None
    return estimate


def test_too_few_pairs_have_no_ends() -> None:
    assert interval_of([]) is None
    for pairs in range(1, 9):
        estimate = interval([(9.0, 1.0)] * pairs)
        assert (estimate.low, estimate.high, estimate.finding) == (None, None, "cannot tell")


def signed_rank_chance(pairs: int, most: int) -> float:
    """The chance that the ranks of the positive signs sum up to at most so much, by enumeration."""
    draws = itertools.product((0, 1), repeat=pairs)
    sums = [sum(rank for rank, sign in enumerate(draw, 1) if sign) for draw in draws]
    return sum(total <= most for total in sums) / len(sums)


@pytest.mark.parametrize("pairs", [10, 12])
def test_the_ends_are_those_of_the_signed_rank_test(pairs: int) -> None:
    """The widest interval that leaves out at most the risk of one look on each side."""
    chance = random.Random(pairs)
    noise = [chance.gauss(0.02, 0.1) for _ in range(pairs)]
    estimate = interval([(math.exp(of_pair), 1.0) for of_pair in noise])
    walsh = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(noise, 2))
    risk = RISK / len(LOOKS)
    left_out = [k for k in range(1, 40) if signed_rank_chance(pairs, k - 1) <= risk][-1]
    assert estimate.low == pytest.approx(math.expm1(walsh[left_out - 1]))
    assert estimate.high == pytest.approx(math.expm1(walsh[-left_out]))


@pytest.mark.parametrize(
    ("estimate", "finding"),
    [
        (Interval(0.0, -0.01, 0.01), "no caching"),
        (Interval(0.05, 0.0, MAX_SPEEDUP), "cannot tell"),
        (Interval(0.15, MAX_SPEEDUP, 0.2), "cannot tell"),
        (Interval(0.15, 0.11, 0.2), "caching"),
        (Interval(9.0, None, None), "cannot tell"),
    ],
)
def test_the_finding_follows_from_the_ends(estimate: Interval, finding: str) -> None:
    assert estimate.finding == finding
