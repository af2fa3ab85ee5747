"""How long a run, a warm-up and a curve take on an engine of known speed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.session.timing import estimate
from mlperf_suite.session.timing.estimate import EngineSpeed, RunTimes, TokenLengths

OFFLINE, SERVER = LLAMA3_1_8B.scenario("Offline"), LLAMA3_1_8B.scenario("Server")
STREAM = LLAMA3_1_8B_EDGE.scenario("SingleStream")
LENGTHS = TokenLengths([400] * 84, 101)
SPEED = EngineSpeed(prefill_s=0.0001, step_s=0.01, request_s=0.002)
AFTER = estimate.AFTER_RUN_S


def seconds(
    scenario: Any, mode: Mode, samples: int = 84, queries: int | None = None, **options: Any
) -> float:
    """Of a run, without the time to judge it."""
    options = {"speed": SPEED, "lengths": LENGTHS, "smoke": True, **options}
    times = RunTimes(scenario, **options)
    return times.run_s(mode, samples, queries) - AFTER


def at_once(samples: int) -> float:
    return SPEED.batch_s([400] * samples, 101)


QUERY_S = SPEED.one_s(400, 101)


@pytest.mark.parametrize(
    ("scenario", "mode", "samples", "options", "took_s"),
    [
        (OFFLINE, "accuracy", 84, {}, at_once(84)),
        (OFFLINE, "accuracy", 42, {}, at_once(42)),
        (OFFLINE, "test06", 84, {}, at_once(100)),
        (OFFLINE, "test06", 84, {"queries": 24}, at_once(24)),
        # As long as its queries come.
        (SERVER, "performance", 84, {"server_qps": 2.0}, 84 / 2 + QUERY_S),
        (SERVER, "performance", 48, {"server_qps": 2.0}, 96 / 2 + QUERY_S),
        (SERVER, "performance", 84, {"server_qps": 20.0}, 420 / 20 + QUERY_S),
        # One after another.
        (STREAM, "accuracy", 22, {}, 22 * QUERY_S),
        (STREAM, "performance", 22, {}, 66 * QUERY_S),
    ],
)
def test_a_run_takes_as_long_as_its_queries(
    scenario: Any, mode: Mode, samples: int, options: dict[str, Any], took_s: float
) -> None:
    assert seconds(scenario, mode, samples, **options) == pytest.approx(took_s)


def test_a_performance_run_lasts_its_least_duration() -> None:
    linear = EngineSpeed(prefill_s=0.0001, step_s=0.0, request_s=0.002)
    for smoke, least_s in ((True, 10), (False, 600)):
        length_s = seconds(OFFLINE, "performance", 8, speed=linear, smoke=smoke)
        # But for the first token, which no step of the decode makes.
        assert 0.95 * least_s < length_s < 1.5 * least_s


def test_servers_warm_up_takes_as_long_as_its_requests_come() -> None:
    for scenario, rate_qps, warm_up_s in (
        (SERVER, 0.5, 4 / 0.5 + QUERY_S),
        (SERVER, 1000.0, at_once(5)),
        (OFFLINE, None, at_once(5)),
        (STREAM, None, 5 * QUERY_S),
    ):
        times = RunTimes(scenario, SPEED, LENGTHS, smoke=True)
        assert times.warm_up_s(5, rate_qps) == pytest.approx(warm_up_s)


@given(st.integers(1, 84), st.sampled_from(["accuracy", "performance", "test06"]))
def test_a_slower_engine_never_takes_less(samples: int, mode: Mode) -> None:
    slow = EngineSpeed(SPEED.prefill_s * 3, SPEED.step_s * 3, SPEED.request_s * 3)
    for scenario in (OFFLINE, SERVER, STREAM):
        fast_s, slow_s = (
            seconds(scenario, mode, samples, speed=speed) + AFTER for speed in (SPEED, slow)
        )
        assert math.isfinite(slow_s)
        # Whole multiples of the samples: a slow engine may be sent one multiple less.
        assert slow_s >= fast_s * 0.66
