"""Properties of a curve's points on any server: where the search ends, and the figures of each."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.features.endpoints.curve.closed_loop import LoopTimes
from mlperf_suite.features.endpoints.curve.curve_figures import CurvePoint
from mlperf_suite.features.endpoints.curve.curve_points import (
    BLOCKS,
    GAIN,
    MAX_CONCURRENCY,
    c_max_of,
    endless_order,
    next_probe,
    planned_points,
    point_of,
    regions_of,
)
from mlperf_suite.features.endpoints.official_client_results.series import MANDATORY, ULTRA_LOW


def search(slots: int, *, floor: float = 1.0) -> dict[int, float]:
    """The search on a server whose throughput grows up to `slots` requests."""
    throughput: dict[int, float] = {}
    while (concurrency := next_probe(throughput)) is not None:
        throughput[concurrency] = floor * min(concurrency, slots)
    return throughput


@given(st.integers(1, MAX_CONCURRENCY))
def test_the_search_ends_with_the_lowest_concurrency_of_the_highest_throughput(slots: int) -> None:
    throughput = search(slots)
    c_max = c_max_of(throughput)
    assert c_max is not None
    assert throughput[c_max] == max(throughput.values())
    assert c_max < GAIN * 2 * slots and (slots < 2 * c_max or c_max == MAX_CONCURRENCY)
    assert len(throughput) <= math.log2(MAX_CONCURRENCY) + 1


@given(st.integers(ULTRA_LOW + 1, MAX_CONCURRENCY), st.sets(st.integers(1, MAX_CONCURRENCY)))
def test_every_mandatory_region_has_a_point(c_max: int, made: set[int]) -> None:
    points = planned_points(c_max, made)
    assert points == sorted(set(points)) and len(points) >= 7
    assert points[0] == 1 and points[-1] == c_max
    assert {c for c in made if c <= c_max} <= set(points)
    regions = {region for point in points for region in regions_of(c_max, point)}
    assert regions == set(MANDATORY)


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


def figures(times: LoopTimes, concurrency: int) -> CurvePoint:
    return point_of(times.answered(), times.issuing_s, concurrency)


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
    point = figures(steady(concurrency, tokens, latency_s, window_s), concurrency)
    assert point.system_tps == pytest.approx(concurrency * tokens / latency_s, rel=0.02)
    tpot_ms = 900 * latency_s / (tokens - 1)
    assert point.tpot_p50_ms == pytest.approx(tpot_ms, abs=1e-4)
    assert point.tpot_p90_ms == pytest.approx(tpot_ms, abs=1e-4)
    assert point.ttft_p90_ms == pytest.approx(100 * latency_s, abs=1e-4)
    assert point.tps_per_user == pytest.approx(1000 / tpot_ms, rel=1e-3)
    assert len(point.blocks) == BLOCKS
    mean = sum(block.tokens_per_sec for block in point.blocks) / BLOCKS
    assert mean == pytest.approx(point.system_tps, rel=1e-3)
