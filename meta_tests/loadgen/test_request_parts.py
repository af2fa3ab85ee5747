"""The life of each request; evidence/loadgen/ has it beside LoadGen's own trace."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.loadgen.made_plans import GENERATION, PROMPTS, a_plan, answer
from meta_tests.made_lives import made_marks, made_requests, made_timeline
from meta_tests.made_runs import line
from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.engines.protocol import RequestTimestamps, Steps
from mlperf_suite.loadgen.arrivals import server_schedule
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.loadgen.logs import parse_detail
from mlperf_suite.loadgen.request_parts import (
    as_reported,
    issued_by_loadgen,
    issued_s,
    parts_of_requests,
)
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.loadgen.timeline import load_of
from mlperf_suite.results.performance_figures import difference_ms


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


def _a_server(late_s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, float]]:
    """A schedule's queries received ever later: the schedule, receipts, answers, reported."""
    schedule = server_schedule(7, 20, 600)
    receipt_s = 100 + schedule + np.linspace(0, late_s, len(schedule)) + 2e-5
    answer_s = receipt_s + np.random.default_rng(3).uniform(0.2, 0.9, len(schedule))
    return schedule, receipt_s, answer_s, as_reported(answer_s - 100 - schedule)


@pytest.mark.parametrize("late_s", [0.0, 0.01, 4.0])
def test_queries_are_counted_from_their_schedule_and_none_that_runs_ahead(late_s: float) -> None:
    right, receipt_s, answer_s, reported_s = _a_server(late_s)
    computed_s = issued_by_loadgen(receipt_s, answer_s, reported_s, right)
    assert computed_s == pytest.approx(100 + right, abs=1e-6)
    for rate in (20.2, 22.0, 40.0) if late_s < 1 else ():
        ahead = server_schedule(7, rate, len(answer_s))
        assert issued_by_loadgen(receipt_s, answer_s, reported_s, ahead) is None


def test_a_schedule_or_figures_that_cannot_be_are_none() -> None:
    right, receipt_s, answer_s, reported_s = _a_server(0.0)
    # So few are ahead that the median of the figures is right.
    last_ahead = right - np.where(np.arange(600) == 599, 3.0, 0.0)
    sooner = {key: seconds - 0.1 for key, seconds in reported_s.items()}
    unanswered = np.append(answer_s[1:], math.nan)
    assert issued_by_loadgen(receipt_s, answer_s, reported_s, last_ahead) is None
    assert issued_by_loadgen(receipt_s, answer_s, sooner, right) is None
    assert issued_by_loadgen(receipt_s, answer_s, {}, None) is None
    assert issued_by_loadgen(receipt_s, unanswered, reported_s, None) is None
    assert issued_by_loadgen(np.empty(0), np.empty(0), reported_s, None) is None
    # All were late, and the end of the schedule is ahead, which no early query betrays.
    reported_s = as_reported(answer_s + 5 - 100 - right)
    for first in (300, 599):
        ahead = right - np.where(np.arange(600) >= first, 3.0, 0.0)
        assert issued_by_loadgen(receipt_s + 5, answer_s + 5, reported_s, ahead) is None


@pytest.mark.parametrize("scenario", ["Offline", "Server", "SingleStream"])
def test_a_run_is_counted_as_its_scenario_is(scenario: str) -> None:
    plan = a_plan(scenario, "performance")
    schedule = server_schedule(7, 200.0, 20) if scenario == "Server" else np.arange(20) / 100
    issue_s = np.zeros(20) if scenario == "Offline" else schedule
    answer_s = 1 + schedule + np.linspace(0.1, 0.5, 20)
    figures = as_reported(answer_s - issue_s)
    lines = [line(key, round(seconds * 1e9)) for key, seconds in figures.items()]
    log = parse_detail("\n".join([*lines, line("effective_schedule_rng_seed", 7)]))
    rows = zip((7.0 + schedule).tolist(), (7.0 + answer_s).tolist(), strict=True)
    requests = made_requests([(receipt, told, told, 1) for receipt, told in rows])
    assert issued_s(requests, plan, log) == pytest.approx(7 + issue_s, abs=1e-6)
    assert issued_s(requests, plan, parse_detail("")) is None
    assert difference_ms((answer_s - issue_s) * 1000 + 3, log) == pytest.approx(3, abs=1e-3)


def test_a_schedule_is_drawn_from_its_seed() -> None:
    # As LoadGen's trace has it.
    assert server_schedule(7, 20, 4) == pytest.approx(
        [0.0, 0.012895748, 0.032103357, 0.223448164], abs=1e-8
    )
    assert len(server_schedule(7, 20, 0)) == 0


def test_the_gates_blocks_have_percentiles_in_the_order_of_issue() -> None:
    rows = [(9.0 - 0.01 * n, 9.0 - 0.01 * n + 0.001 * n, 12.0, 2) for n in range(400)]
    timeline = made_timeline(rows)
    assert timeline.ttft_ms is not None
    for name, share in (("ttft_ms", 0.99), ("ttft_p50_ms", 0.5)):
        blocks = timeline.blocks()[name]
        parts = np.array_split(np.asarray(timeline.ttft_ms)[::-1], len(blocks))
        assert blocks == [pytest.approx(sorted(part)[int(len(part) * share)]) for part in parts]


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
    marks = RequestTimestamps("a", "b", "c", "d")
    for number in data.draw(st.permutations(range(len(rows)))):
        if data.draw(st.booleans()):
            marks.keep(1000 + number, number, *rows[number][:4])
    marks.keep(5, 9, 0.0, 0.0, 0.0, 0.0)  # of no request of the run
    request_parts = parts_of_requests(requests, marks, None)
    assert request_parts is not None
    parts = np.asarray(list(request_parts.parts_s.values()))
    assert parts.min() >= 0
    assert parts.sum(axis=0) == pytest.approx(
        request_parts.answer_s - request_parts.issued_s, abs=1e-9
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
    unanswered = (0.0, math.nan, math.nan, 0)
    assert parts_of_requests(made_requests([unanswered]), None, None) is None
    request_parts = parts_of_requests(made_requests([rows[0], unanswered]), None, None)
    assert request_parts is not None
    assert list(request_parts.samples) == [0]


# How full the engine was

_STEP_COLUMNS = ("ended_s", "running", "finished", "waiting", "prompt_tokens", "kv_share")


def _steps_of(*rows: tuple[float, ...], replicas: Iterable[int] = ()) -> Steps:
    """Steps with these columns and as many tokens as run, in replica 0 unless it is said."""
    steps = Steps()
    for name, column in zip(_STEP_COLUMNS, zip(*rows, strict=True), strict=True):
        getattr(steps, name).extend(column)
    steps.replica.extend(replicas or [0] * len(rows))
    steps.tokens.extend(steps.running)
    steps.preempted.extend([0] * len(rows))
    return steps


def test_shares_are_of_the_time_and_not_of_the_steps() -> None:
    steps = _steps_of(
        (11.0, 4, 0, 2, 100, 0.5),  # 1 s
        (14.0, 4, 4, 0, 0, 0.99),  # 3 s, and nothing is left
        (18.0, 1, 1, 0, 50, 0.1),  # queued at 17: 1 s
    )
    marks = RequestTimestamps("front end", "queue", "prefill", "decode")
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
    assert load_of(Steps(), None, 0.0, 1.0, None) is None


def test_replicas_share_the_time_and_one_may_end_late() -> None:
    rows = [(11.0, 1, 0, 0, 0, 0.1), (11.0, 2, 0, 0, 0, 0.1), (15.0, 2, 2, 0, 0, 0.1)]
    load = load_of(_steps_of(*rows, replicas=[0, 1, 1]), None, 10.0, 20.0, None)
    assert load is not None
    assert (load.replicas, load.tail, load.batch_full) == (2, 0.4, None)
    assert load.busy == pytest.approx((1 + 1 + 4) / 20)
