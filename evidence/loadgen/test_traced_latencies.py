"""The suite's own times of each request, against LoadGen's trace of the same run.

On a machine that does other work, a moment between two reads of a clock fails these tests.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from evidence.loadgen.traced_runs import SCENARIOS, Trace, Traced, traced_runs
from meta_tests.made_lives import made_requests
from mlperf_suite.benchmarks.request_times import percentile
from mlperf_suite.loadgen.arrivals import server_schedule
from mlperf_suite.loadgen.request_parts import (
    ISSUE,
    REPORTED,
    RETURN,
    as_reported,
    issued_s,
    reported_s,
)
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.performance_figures import difference_ms


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Traced]:
    return traced_runs(tmp_path_factory.mktemp("traced"))


def differences_ms(timeline: Timeline, traced: Trace, *, one_query: bool) -> list[float]:
    """How far each request's sum of parts is from its latency by LoadGen, in ms, sorted.

    `one_query`: whether it is an Offline run. Its samples all begin at the same time, so they can
    only be matched by the order of their latencies.
    """
    sums = np.sum([np.asarray(of) for of in timeline.parts_ms.values()], axis=0)
    loadgens = np.asarray(traced.latency_ms)
    if one_query:
        return sorted(np.abs(np.sort(sums) - np.sort(loadgens)).tolist())
    order = np.argsort(timeline.issued_ms, kind="stable")
    assert [timeline.samples[row] for row in order] == traced.samples
    return sorted(np.abs(sums[order] - loadgens).tolist())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_parts_of_each_request_add_up_to_loadgens_latency(
    traced: Mapping[str, Traced], scenario: str
) -> None:
    run, timeline = traced[scenario], traced[scenario].timeline
    assert timeline.from_loadgen
    assert len(timeline.latency_ms) == len(run.trace.latency_ms)
    off = differences_ms(timeline, run.trace, one_query=scenario == "Offline")
    print(f"{scenario}: {len(off)} requests, p50 {off[len(off) // 2]:.4f}, most {off[-1]:.4f} ms")
    # The rest is the moment between two reads of a clock, in which this machine can do other work.
    assert off[int(len(off) * 0.9)] < 0.1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_percentile_is_loadgens(traced: Mapping[str, Traced], scenario: str) -> None:
    """Of the curves and tables alike; one between two values would be off by milliseconds."""
    run, detail = traced[scenario], traced[scenario].run.logs.detail
    curves = [
        ("result_{}_percentile_latency_ns", run.timeline.latency_ms),
        ("result_first_token_{}_percentile_latency_ns", run.timeline.ttft_ms),
        ("result_time_per_output_token_{}_percentile_ns", run.timeline.tpot_ms),
    ]
    count = 0
    for key, values in curves:
        for percent in ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90"):
            reported_ms = detail.milliseconds(key.format(percent))
            if reported_ms is None:
                continue
            # What LoadGen reports, the timeline has of every request.
            assert values is not None and len(values) == len(run.trace.latency_ms)
            percentile_ms = percentile(sorted(values), float(percent) / 100)
            assert percentile_ms == pytest.approx(reported_ms, abs=0.5), (key, percent)
            count += 1
    assert count >= 6
    differs = difference_ms(np.asarray(run.timeline.latency_ms), detail)
    assert differs is not None and differs < 0.5


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_parts_of_a_run_add_up_to_the_latencies(
    traced: Mapping[str, Traced], scenario: str
) -> None:
    timeline, trace = traced[scenario].timeline, traced[scenario].trace
    sums = np.sum([np.asarray(of) for of in timeline.parts_ms.values()], axis=0)
    assert sums == pytest.approx(timeline.latency_ms, abs=1e-6)
    assert min(min(of) for of in timeline.parts_ms.values()) >= 0
    assert list(timeline.parts_ms) == [ISSUE, "front end", "queue", "prefill", "decode", RETURN]
    assert sorted(timeline.samples) == sorted(trace.samples)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_requests_are_counted_from_loadgens_issue(
    traced: Mapping[str, Traced], scenario: str
) -> None:
    """With the latencies of LoadGen's own trace, as if no time passed between two clocks."""
    run, trace = traced[scenario], traced[scenario].trace
    scheduled_s = 7 + np.asarray(trace.scheduled_us) / 1e6
    answer_s = scheduled_s + np.asarray(trace.latency_ms) / 1e3
    # In SingleStream, LoadGen counts from its call of the SUT.
    late_s = np.linspace(0.0, 0.0 if scenario == "SingleStream" else 0.02, len(answer_s))
    rows = zip((scheduled_s + late_s).tolist(), answer_s.tolist(), strict=True)
    requests = made_requests([(receipt, told, told, 1) for receipt, told in rows])
    issue_s = issued_s(requests, run.plan, run.run.logs.detail)
    assert issue_s is not None
    assert issue_s == pytest.approx(scheduled_s, abs=1e-6)


def test_the_schedule_is_loadgens(traced: Mapping[str, Traced]) -> None:
    server = traced["Server"]
    rate, seed = (server.run.logs.detail[f"effective_{k}"] for k in ("target_qps", _SEED))
    schedule = server_schedule(seed, rate, len(server.trace.scheduled_us)) * 1e6
    loadgens = np.asarray(server.trace.scheduled_us) - server.trace.scheduled_us[0]
    assert schedule == pytest.approx(loadgens, abs=0.01)
    assert len(server_schedule(seed, rate, 0)) == 0


_SEED = "schedule_rng_seed"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_reported_percentiles_are_loadgens(traced: Mapping[str, Traced], scenario: str) -> None:
    """Of the latencies in its trace; one between two values would be off by milliseconds."""
    detail = traced[scenario].run.logs.detail
    latency_ms = np.asarray(traced[scenario].trace.latency_ms)
    reported = as_reported(latency_ms)
    # This LoadGen reports no 80th percentile.
    assert len(reported_s(detail)) == len(REPORTED) - 1
    for key, said_s in reported_s(detail).items():
        assert reported[key] == pytest.approx(said_s * 1000, abs=1e-4), key
    assert difference_ms(latency_ms, detail) == pytest.approx(0, abs=1e-3)
    assert difference_ms(latency_ms + 3, detail) == pytest.approx(3, abs=1e-3)


def test_the_gates_blocks_have_loadgens_percentile(traced: Mapping[str, Traced]) -> None:
    timeline = traced["Server"].timeline
    assert timeline.ttft_ms is not None
    order = np.argsort(timeline.issued_ms, kind="stable")
    for name, share in (("ttft_ms", 0.99), ("ttft_p50_ms", 0.5)):
        blocks = timeline.blocks()[name]
        parts = np.array_split(np.asarray(timeline.ttft_ms)[order], len(blocks))
        assert blocks == [pytest.approx(sorted(part)[int(len(part) * share)]) for part in parts]
