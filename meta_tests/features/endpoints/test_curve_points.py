"""Which concurrencies a curve measures, and what is computed of one."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from mlperf_suite.features.endpoints.curve.closed_loop import LoopTimes
from mlperf_suite.features.endpoints.curve.curve_figures import CurvePoint
from mlperf_suite.features.endpoints.curve.curve_kind import CurveKey
from mlperf_suite.features.endpoints.curve.curve_points import (
    c_max_of,
    growing_queue,
    next_probe,
    planned_points,
    point_of,
    regions_of,
    scored_points,
    tokens_per_s,
)
from mlperf_suite.features.endpoints.curve.curves import _Saturation
from mlperf_suite.features.endpoints.official_client_results.series import MANDATORY
from mlperf_suite.session.run_kind import Step
from mlperf_suite.session.timing.estimate import Estimator


def test_the_search_ends_after_two_steps_without_a_gain_or_past_the_knee() -> None:
    throughput = {1: 10.0, 2: 10.1}
    assert next_probe(throughput) == 4
    assert next_probe(throughput | {4: 10.2}) is None
    assert next_probe(throughput | {4: 20.0}) == 8
    past = {1: 10.0, 2: 20.0, 4: 0.0}
    assert next_probe(past) is None and c_max_of(past) == 2
    assert c_max_of({1: 0.0}) is None and c_max_of({}) is None


def test_the_points_of_a_curve_are_of_each_region_and_the_widest_gap_is_filled_first() -> None:
    assert planned_points(1024) == [1, 5, 13, 35, 189, 440, 1024]
    assert {region for c in planned_points(1024) for region in regions_of(1024, c)} == {*MANDATORY}
    assert planned_points(64, {5, 100}) == [1, 2, 5, 10, 25, 40, 64]
    # A low C_max has as many points as fit and no regions.
    assert planned_points(3) == [1, 2, 3] and not regions_of(3, 1) and not regions_of(None, 1)


def figures(times: LoopTimes, concurrency: int) -> CurvePoint:
    return point_of(times.answered(), times.issuing_s, concurrency)


def steady(concurrency: int, rounds: int, issuing_s: float) -> LoopTimes:
    """Requests in lockstep of 10 s and 11 tokens: a TTFT of 1 s, then a token each 0.9 s."""
    times = LoopTimes(issuing_s=issuing_s)
    for begin in range(0, 10 * rounds, 10):
        for _ in range(concurrency):
            times.issued_s.append(begin)
            times.first_s.append(begin + 1.0)
            times.ended_s.append(begin + 10.0)
            times.tokens.append(11)
    return times


def test_a_window_without_an_answer_for_each_user_is_the_whole_run() -> None:
    point = figures(steady(4, 1, 6.0), 4)
    assert (point.output_tokens, point.duration_s) == (44, 10.0)


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


def test_a_curve_of_conversations_has_longer_points() -> None:
    nothing: Any = None
    # No accuracy run in smoke, and points above concurrency 32 that take twice as long otherwise.
    for smoke, more_s in ((True, -50), (False, 6 * 1200)):
        feature_options = {"client": "loadgen"}
        settings: Any = SimpleNamespace(smoke=smoke, feature_options=feature_options)
        estimator = Estimator(settings, None, nothing, nothing, {}, nothing)
        agents, single = (
            estimator.seconds(Step("points", CurveKey(benchmark), "")) or 0.0
            for benchmark in ("kimi-k3", "llama3.1-8b")
        )
        assert round(agents - single) == more_s
