"""The life of each request, against LoadGen's own trace of the same run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.loadgen.made_plans import GENERATION, PROMPTS, a_plan, answer
from meta_tests.loadgen.traced_runs import SCENARIOS, Traced, traced_runs
from meta_tests.made_lives import made_marks, made_requests
from meta_tests.stand_in import Delays, StandInEngine
from meta_tests.suite_runs import ROOT
from mlperf_suite.engines.protocol import Marks, Steps
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.loadgen.request_parts import (
    ISSUE,
    REPORTED,
    RETURN,
    as_reported,
    issued_by_loadgen,
    issued_s,
    parts_of_requests,
    reported_s,
)
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.loadgen.schedule import server_schedule
from mlperf_suite.loadgen.timeline import load_of
from mlperf_suite.results.performance_figures import difference_ms


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Traced]:
    return traced_runs(tmp_path_factory.mktemp("traced"))


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
    told_s = scheduled_s + np.asarray(trace.latency_ms) / 1e3
    # In SingleStream, LoadGen counts from its call of the SUT.
    late_s = np.linspace(0.0, 0.0 if scenario == "SingleStream" else 0.02, len(told_s))
    rows = zip((scheduled_s + late_s).tolist(), told_s.tolist(), strict=True)
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
def test_a_percentile_is_loadgens(traced: Mapping[str, Traced], scenario: str) -> None:
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


def test_no_percentile_of_the_package_lies_between_two_values() -> None:
    between_values = re.compile(
        r"\b(?:np|numpy)\.(?:nan)?(?:percentile|quantile)\(|statistics\.quantiles\("
    )
    package = ROOT / "mlperf_suite"
    assert [path for path in package.rglob("*.py") if between_values.search(path.read_text())] == []


def test_a_run_without_times_is_a_run_all_the_same(tmp_path: Path) -> None:
    engine = StandInEngine(Delays(0.001, 0.001), answer)
    plan = a_plan("Server", "performance", Shortened(1, 64, latency_percent=99))
    run = run_loadgen(plan, engine, PROMPTS, GENERATION, tmp_path, with_times=False)
    engine.close()
    assert run.timeline is None
    assert run.logs.detail["result_query_count"] == run.samples >= 64
    assert not (tmp_path / "timeline.json").exists()


# What is known of LoadGen's clock

_TIMES = st.lists(st.tuples(st.floats(0, 50), st.floats(0, 2)), min_size=1, max_size=30)


@given(_TIMES, st.floats(0, 1e6), st.booleans())
def test_the_start_of_a_run_is_found_wherever_it_is(
    rows: list[tuple[float, float]], start: float, scheduled: bool
) -> None:
    schedule = np.cumsum([gap for gap, _ in rows])
    issue_s = start + schedule
    receipt_s = issue_s + (0.0 if not scheduled else 0.003)
    answer_s = receipt_s + np.asarray([latency_s for _, latency_s in rows])
    reported_s = as_reported(answer_s - issue_s)
    computed_s = issued_by_loadgen(receipt_s, answer_s, reported_s, schedule if scheduled else None)
    assert computed_s is not None
    assert computed_s == pytest.approx(issue_s, abs=1e-6)


def test_a_start_that_cannot_be_is_none() -> None:
    receipt_s, answer_s = np.asarray([1.0, 2.0]), np.asarray([1.5, 2.5])
    reported_s = as_reported(answer_s - receipt_s)
    assert issued_by_loadgen(receipt_s, answer_s, reported_s, np.asarray([0.0, 1.0])) is not None
    sooner = {key: seconds - 0.1 for key, seconds in reported_s.items()}
    assert issued_by_loadgen(receipt_s, answer_s, sooner, np.asarray([0.0, 1.0])) is None
    assert issued_by_loadgen(receipt_s, answer_s, {}, None) is None
    assert issued_by_loadgen(receipt_s, np.asarray([1.5, math.nan]), reported_s, None) is None
    assert issued_by_loadgen(np.empty(0), np.empty(0), reported_s, None) is None


def _a_server(seconds: float, rate: float, late_s: float) -> tuple[np.ndarray, np.ndarray]:
    """When the SUT received each query of a schedule, and when LoadGen was told of its answer."""
    schedule = server_schedule(7, rate, int(seconds * rate))
    behind = np.linspace(0, late_s, len(schedule))
    receipt_s = 100 + schedule + behind + 2e-5
    return receipt_s, receipt_s + np.random.default_rng(3).uniform(0.2, 0.9, len(schedule))


@pytest.mark.parametrize(("rate", "late_s"), [(20.2, 0.0), (22.0, 0.0), (40.0, 0.0), (20.2, 0.01)])
def test_a_schedule_that_runs_ahead_of_loadgens_is_none(rate: float, late_s: float) -> None:
    receipt_s, answer_s = _a_server(30, 20, late_s)
    right = server_schedule(7, 20, len(answer_s))
    reported_s = as_reported(answer_s - 100 - right)
    computed_s = issued_by_loadgen(receipt_s, answer_s, reported_s, right)
    assert computed_s == pytest.approx(100 + right, abs=1e-6)
    ahead = server_schedule(7, rate, len(answer_s))
    assert (ahead <= right).all()
    assert issued_by_loadgen(receipt_s, answer_s, reported_s, ahead) is None


@pytest.mark.parametrize(("late_s", "ahead_s", "last"), [(5.0, 3.0, 300), (0.0, 3.0, 1)])
def test_a_schedule_ahead_that_no_early_query_betrays_is_none(
    late_s: float, ahead_s: float, last: int
) -> None:
    """All queries were late, or so few are ahead that the median of the figures is right."""
    receipt_s, answer_s = (times + late_s for times in _a_server(30, 20, 0.0))
    right = server_schedule(7, 20, len(answer_s))
    reported_s = as_reported(answer_s - 100 - right)
    ahead = right - np.where(np.arange(len(right)) >= len(right) - last, ahead_s, 0.0)
    assert issued_by_loadgen(receipt_s, answer_s, reported_s, right) is not None
    assert issued_by_loadgen(receipt_s, answer_s, reported_s, ahead) is None


def test_queries_that_wait_for_the_sut_are_counted_from_their_schedule() -> None:
    receipt_s, answer_s = _a_server(30, 20, 4.0)
    right = server_schedule(7, 20, len(answer_s))
    computed_s = issued_by_loadgen(receipt_s, answer_s, as_reported(answer_s - 100 - right), right)
    assert computed_s == pytest.approx(100 + right, abs=1e-6)


def test_a_moment_lost_between_two_clocks_moves_no_other_request() -> None:
    issue_s: np.ndarray[Any, Any] = np.arange(100.0)
    answer_s: np.ndarray[Any, Any] = issue_s + np.linspace(0.5, 1.5, 100)
    loadgens = answer_s - issue_s
    loadgens[50] += 5.0  # what LoadGen's clock said five seconds after the SUT's
    computed_s = issued_by_loadgen(issue_s + 0.002, answer_s, as_reported(loadgens), issue_s - 7)
    assert computed_s is not None
    assert computed_s == pytest.approx(issue_s, abs=0.02)


# Rows of a life

_MARK = st.one_of(st.just(math.nan), st.floats(-10, 100))


@given(st.lists(st.tuples(*[_MARK] * 4, st.floats(0, 60)), min_size=1, max_size=8), st.data())
def test_whatever_an_engine_tells_the_parts_are_the_whole(
    rows: list[tuple[float, float, float, float, float]], data: st.DataObject
) -> None:
    requests = made_requests(
        [(1.0 * n, 1.0 * n, 1.0 * n + row[4], 3) for n, row in enumerate(rows)]
    )
    marks = Marks("a", "b", "c", "d")
    for number in data.draw(st.permutations(range(len(rows)))):
        if data.draw(st.booleans()):
            marks.keep(1000 + number, number, *rows[number][:4])
    marks.keep(5, 9, 0.0, 0.0, 0.0, 0.0)  # of no request of the run
    request_parts = parts_of_requests(requests, marks, None)
    assert request_parts is not None
    parts = np.asarray(list(request_parts.parts_s.values()))
    assert parts.min() >= 0
    assert parts.sum(axis=0) == pytest.approx(
        request_parts.told_s - request_parts.issued_s, abs=1e-9
    )


def test_each_request_has_its_own_marks() -> None:
    rows = [(0.0, 0.5, 1.0, 3), (0.1, 0.7, 1.5, 4)]
    marks = made_marks(rows, 0.2, preempted=1)
    # In the order in which they were answered, which is another one.
    columns: list[Any] = [marks.tags, marks.preempted, *marks.times_s]
    for column in columns:
        column.reverse()
    request_parts = parts_of_requests(made_requests(rows), marks, None)
    assert request_parts is not None
    assert request_parts.parts_s["queue"] == pytest.approx([0.2, 0.2])
    assert request_parts.parts_s["prefill"] == pytest.approx([0.3, 0.4])
    assert request_parts.parts_s["decode"] == pytest.approx([0.5, 0.8])
    assert list(request_parts.preempted) == [1, 1]


def test_what_is_not_answered_has_no_life() -> None:
    assert parts_of_requests(made_requests([(0.0, math.nan, math.nan, 0)]), None, None) is None
    request_parts = parts_of_requests(
        made_requests([(0.0, 0.2, 1.0, 2), (0.0, math.nan, math.nan, 0)]), None, None
    )
    assert request_parts is not None
    assert list(request_parts.samples) == [0]


# How full the engine was


def steps_of(rows: Sequence[tuple[float, int, int, int, int, float, int]]) -> Steps:
    """Steps by end, running, finished, waiting, prompt tokens, KV share, replica."""
    steps = Steps()
    for end_s, running, finished, queue_length, prompt, kv_share, replica in rows:
        steps.ended_s.append(end_s)
        steps.running.append(running)
        steps.finished.append(finished)
        steps.waiting.append(queue_length)
        steps.prompt_tokens.append(prompt)
        steps.kv_share.append(kv_share)
        steps.replica.append(replica)
        steps.tokens.append(running)
        steps.preempted.append(0)
    return steps


def test_shares_are_of_the_time_and_not_of_the_steps() -> None:
    steps = steps_of(
        [
            (11.0, 4, 0, 2, 100, 0.5, 0),  # 1 s
            (14.0, 4, 4, 0, 0, 0.99, 0),  # 3 s, and nothing is left
            (18.0, 1, 1, 0, 50, 0.1, 0),  # queued at 17: 1 s
        ]
    )
    marks = Marks("front end", "queue", "prefill", "decode")
    for tag, queued in enumerate((10.0, 17.0)):
        marks.keep(tag, 0, queued, queued, queued, queued)
    steps.drafted.extend([0, 6, 6])
    steps.accepted.extend([0, 6, 1])
    load = load_of(steps, marks, 10.0, 20.0, 4)
    assert load is not None
    assert (load.drafted_tokens, load.accepted_tokens) == (12, 7)
    assert (load.busy, load.prefill, load.waiting) == (0.5, 0.2, 0.1)
    assert (load.kv_full, load.batch_full, load.batch_limit) == (0.3, 0.4, 4)
    assert load.batch_mean == pytest.approx((4 + 12 + 1) / 5)
    assert (load.batch_most, load.prompt_tokens, load.steps) == (4, 150, 3)
    assert load.kv_most == pytest.approx(0.99)


def test_replicas_share_the_time_and_one_may_end_late() -> None:
    rows = [(11.0, 1, 0, 0, 0, 0.1, 0), (11.0, 2, 0, 0, 0, 0.1, 1), (15.0, 2, 2, 0, 0, 0.1, 1)]
    load = load_of(steps_of(rows), None, 10.0, 20.0, None)
    assert load is not None
    assert (load.replicas, load.tail, load.batch_full) == (2, 0.4, None)
    assert load.busy == pytest.approx((1 + 1 + 4) / 20)


def test_an_engine_that_tells_of_no_batch_has_no_load() -> None:
    assert load_of(Steps(), None, 0.0, 1.0, None) is None
