"""The suite's own times of each request, against LoadGen's trace of the same run.

On a machine that does other work, a moment between two reads of a clock fails these tests.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from meta_tests.loadgen.traced_runs import SCENARIOS, Trace, Traced, traced_runs
from mlperf_suite.benchmarks.percentile import percentile
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
