"""The arithmetic of how long a step takes, on an engine of known speed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.session.timing import estimate
from mlperf_suite.session.timing.estimate import Lengths
from mlperf_suite.session.timing.probe import Speed

OFFLINE, SERVER = LLAMA3_1_8B.scenario("Offline"), LLAMA3_1_8B.scenario("Server")
STREAM = LLAMA3_1_8B_EDGE.scenario("SingleStream")
LENGTHS = Lengths([400] * 84, 101)
SPEED = Speed(prefill_s=0.0001, step_s=0.01, request_s=0.002)
AFTER = estimate._AFTER_RUN_S


def seconds(scenario: Any, mode: Any, samples: Any = 84, **kwargs: Any) -> float:
    return (
        estimate.run_s(scenario, mode, SPEED, LENGTHS, samples, **({"smoke": True} | kwargs))
        - AFTER
    )


def test_offline_takes_its_samples_at_once() -> None:
    assert seconds(OFFLINE, "accuracy") == pytest.approx(SPEED.batch_s([400] * 84, 101))
    assert seconds(OFFLINE, "accuracy", 42) == pytest.approx(SPEED.batch_s([400] * 42, 101))


def test_a_performance_run_lasts_its_least_duration() -> None:
    linear = Speed(prefill_s=0.0001, step_s=0.0, request_s=0.002)
    for smoke, least_s in ((True, 10), (False, 600)):
        length_s = estimate.run_s(OFFLINE, "performance", linear, LENGTHS, 8, smoke=smoke)
        # But for the first token, which no step of the decode makes.
        assert 0.95 * least_s < length_s - AFTER < 1.5 * least_s


def test_server_takes_as_long_as_its_queries_come() -> None:
    query_s = SPEED.one_s(400, 101)
    assert seconds(SERVER, "performance", server_qps=2.0) == pytest.approx(84 / 2 + query_s)
    assert seconds(SERVER, "performance", 48, server_qps=2.0) == pytest.approx(96 / 2 + query_s)
    assert seconds(SERVER, "performance", server_qps=20.0) == pytest.approx(420 / 20 + query_s)


def test_single_stream_takes_one_after_another() -> None:
    query_s = SPEED.one_s(400, 101)
    assert seconds(STREAM, "accuracy", 22) == pytest.approx(22 * query_s)
    assert seconds(STREAM, "performance", 22) == pytest.approx(66 * query_s)


def test_servers_warm_up_takes_as_long_as_its_requests_come() -> None:
    query_s = SPEED.one_s(400, 101)
    paced = estimate.warm_up_s(SERVER, SPEED, LENGTHS, 5, 0.5)
    assert paced == pytest.approx(4 / 0.5 + query_s)
    at_once = SPEED.batch_s([400] * 5, 101)
    assert estimate.warm_up_s(SERVER, SPEED, LENGTHS, 5, 1000.0) == pytest.approx(at_once)
    assert estimate.warm_up_s(OFFLINE, SPEED, LENGTHS, 5) == pytest.approx(at_once)
    assert estimate.warm_up_s(STREAM, SPEED, LENGTHS, 5) == pytest.approx(5 * query_s)


def test_an_audit_takes_its_queries() -> None:
    assert seconds(OFFLINE, "test06") == pytest.approx(SPEED.batch_s([400] * 100, 101))
    few = seconds(OFFLINE, "test06", audit_queries=24)
    assert few == pytest.approx(SPEED.batch_s([400] * 24, 101))


@given(st.integers(1, 84), st.sampled_from(["accuracy", "performance", "test06"]))
def test_a_slower_engine_never_takes_less(samples: int, mode: Mode) -> None:
    slow = Speed(SPEED.prefill_s * 3, SPEED.step_s * 3, SPEED.request_s * 3)
    for scenario in (OFFLINE, SERVER, STREAM):
        fast_s, slow_s = (
            estimate.run_s(scenario, mode, speed, LENGTHS, samples, smoke=True)
            for speed in (SPEED, slow)
        )
        assert math.isfinite(slow_s)
        # Whole multiples of the samples: a slow engine may be sent one multiple less.
        assert slow_s >= fast_s * 0.66
