"""Which concurrencies a curve measures, and what is computed of one."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.client_results.series import MANDATORY, ULTRA_LOW
from mlperf_suite.engines.closed_loop import LoopTimes
from mlperf_suite.session.curve_points import (
    BLOCKS,
    GAIN,
    MOST_CONCURRENCY,
    c_max_of,
    endless_order,
    growing_queue,
    next_probe,
    planned_points,
    point_of,
    regions_of,
    scored_points,
    tokens_per_s,
)
from mlperf_suite.session.curves import _Saturation


def search(slots: int, *, floor: float = 1.0) -> dict[int, float]:
    """The search on a server whose throughput grows up to `slots` requests."""
    throughput: dict[int, float] = {}
    while (concurrency := next_probe(throughput)) is not None:
        throughput[concurrency] = floor * min(concurrency, slots)
    return throughput


@given(st.integers(1, MOST_CONCURRENCY))
def test_the_search_ends_with_the_lowest_concurrency_of_the_highest_throughput(slots: int) -> None:
    throughput = search(slots)
    c_max = c_max_of(throughput)
    assert c_max is not None
    assert throughput[c_max] == max(throughput.values())
    assert c_max < GAIN * 2 * slots and (slots < 2 * c_max or c_max == MOST_CONCURRENCY)
    assert len(throughput) <= math.log2(MOST_CONCURRENCY) + 1


def test_the_search_ends_after_two_steps_without_a_gain_or_past_the_knee() -> None:
    throughput = {1: 10.0, 2: 10.1}
    assert next_probe(throughput) == 4
    assert next_probe(throughput | {4: 10.2}) is None
    assert next_probe(throughput | {4: 20.0}) == 8
    past = {1: 10.0, 2: 20.0, 4: 0.0}
    assert next_probe(past) is None and c_max_of(past) == 2
    assert c_max_of({1: 0.0}) is None and c_max_of({}) is None


@given(st.integers(ULTRA_LOW + 1, MOST_CONCURRENCY), st.sets(st.integers(1, MOST_CONCURRENCY)))
def test_every_mandatory_region_has_a_point(c_max: int, made: set[int]) -> None:
    points = planned_points(c_max, made)
    assert points == sorted(set(points)) and len(points) >= 7
    assert points[0] == 1 and points[-1] == c_max
    assert {c for c in made if c <= c_max} <= set(points)
    regions = {region for point in points for region in regions_of(c_max, point)}
    assert regions == set(MANDATORY)


def test_the_widest_gap_is_filled_first() -> None:
    assert max(high / low for low, high in pairwise(planned_points(1024))) <= 6


@given(st.integers(1, ULTRA_LOW))
def test_a_low_c_max_has_as_many_points_as_fit_and_no_regions(c_max: int) -> None:
    points = planned_points(c_max)
    assert len(points) == min(7, c_max)
    assert set(points) <= set(range(1, c_max + 1))
    assert not regions_of(c_max, 1) and not regions_of(None, 1)


@given(st.integers(1, 50), st.integers(0, 2**64 - 1))
def test_each_pass_has_every_sample_once(samples: int, seed: int) -> None:
    order = endless_order(samples, seed)
    for _ in range(3):
        assert sorted(next(order) for _ in range(samples)) == list(range(samples))


def steady(concurrency: int, tokens: int, latency_s: float, window_s: float) -> LoopTimes:
    """Requests in lockstep: TTFT a tenth of the latency, then a token at equal distances."""
    times = LoopTimes(issuing_s=window_s)
    rounds = math.ceil(window_s / latency_s)
    for number in range(rounds):
        begin = number * latency_s
        for _ in range(concurrency):
            times.issued_s.append(begin)
            times.first_s.append(begin + latency_s / 10)
            times.ended_s.append(begin + latency_s)
            times.tokens.append(tokens)
    return times


@given(
    st.integers(1, 40),
    st.integers(2, 500),
    st.floats(0.01, 5),
    st.integers(20, 60),
)
def test_figures_of_a_steady_server(
    concurrency: int, tokens: int, latency_s: float, rounds: int
) -> None:
    window_s = rounds * latency_s
    point = point_of(steady(concurrency, tokens, latency_s, window_s), concurrency)
    assert point.system_tps == pytest.approx(concurrency * tokens / latency_s, rel=0.02)
    tpot_ms = 900 * latency_s / (tokens - 1)
    assert point.tpot_p50_ms == pytest.approx(tpot_ms, abs=1e-4)
    assert point.tpot_p90_ms == pytest.approx(tpot_ms, abs=1e-4)
    assert point.ttft_p90_ms == pytest.approx(100 * latency_s, abs=1e-4)
    assert point.tps_per_user == pytest.approx(1000 / tpot_ms, rel=1e-3)
    assert len(point.blocks) == BLOCKS
    mean = sum(block.tokens_per_sec for block in point.blocks) / BLOCKS
    assert mean == pytest.approx(point.system_tps, rel=1e-3)


def test_tokens_after_the_window_do_not_count() -> None:
    # Of each answer the first token after 1 s, then one a second.
    times = LoopTimes(
        array("d", [0.0, 11.0]),
        array("d", [1.0, 12.0]),
        array("d", [11.0, 22.0]),
        array("q", [11, 11]),
        15.0,
    )
    point = point_of(times, 1)
    assert (point.output_tokens, point.duration_s, point.completed) == (11 + 4, 15.0, 2)


def test_a_window_without_an_answer_for_each_user_is_the_whole_run() -> None:
    times = steady(4, 11, 10.0, 10.0)
    times.issuing_s = 6.0
    point = point_of(times, 4)
    assert (point.output_tokens, point.duration_s) == (44, 10.0)


def test_an_answer_of_one_token_has_no_tpot() -> None:
    times = LoopTimes(array("d", [0.0]), array("d", [1.0]), array("d", [1.0]), array("q", [1]), 2.0)
    point = point_of(times, 1)
    assert (point.tpot_p90_ms, point.tps_per_user, point.output_tokens) == (None, 0.0, 1)


def queue(growth_s: float) -> LoopTimes:
    """A request each 0.1 s whose wait grows by `growth_s` from one to the next."""
    times = LoopTimes()
    for number in range(400):
        issued = number * 0.1
        times.issued_s.append(issued)
        times.first_s.append(issued + 0.05 + growth_s * number)
        times.ended_s.append(issued + 0.15 + growth_s * number)
        times.tokens.append(10)
    return times


def test_a_queue_that_grows_is_told_from_a_slow_server() -> None:
    assert "TTFT p50 rose from" in growing_queue(queue(0.02), 4, 8.0, 2.5)
    assert not growing_queue(queue(0.0), 4, 8.0, 2.5)
    # Nothing is said before there are three blocks.
    assert not growing_queue(queue(0.02), 4, 7.4, 2.5)
    # Nor of the first requests, which were all issued at once.
    assert not growing_queue(queue(0.02), 400, 8.0, 2.5)


def test_a_growing_queue_without_more_throughput_is_past_the_knee() -> None:
    past = _Saturation(4, 20.0, best=1000.0)
    assert past.found(queue(0.02), 8.0)
    assert past.why.endswith("at 500.0 tokens/s; a lower concurrency has 1,000.0")
    for best in (0.0, 100.0):
        assert not _Saturation(4, 20.0, best).found(queue(0.02), 8.0)


def test_the_throughput_so_far_counts_answers_at_work_by_half() -> None:
    times = queue(0.0)
    assert tokens_per_s(times, 40.0) == pytest.approx(100.0)
    for number in range(390, 400):
        times.ended_s[number] = math.nan
    assert tokens_per_s(times, 40.0) == pytest.approx((3900 + 50) / 40)
    assert tokens_per_s(LoopTimes(), 1.0) == 0.0


def test_accuracy_is_gated_at_one_point_of_each_region_and_at_c_max() -> None:
    measured = [1, 4, 16, 32, 40, 60, 100, 128, 256, 512, 1024, 2048]
    # Regions of C_max 1024: ultra-low to 32, low 2 to 11, medium to 103, high.
    assert scored_points(1024, measured) == [4, 32, 100, 1024]
    assert scored_points(1024, [1, 4, 60, 1024]) == [1, 4, 60, 1024]
    assert scored_points(16, [1, 2, 4, 8, 16, 32]) == [16]
    assert scored_points(None, [1, 2]) == []
