"""The figures of the requests' lives, and why the slowest were slow."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.made_lives import made_marks, made_timeline
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.performance_figures import SLOWEST, life_figures
from mlperf_suite.results.schema import LifeFigures, PerformanceFigures, Run, Summary

NOTHING = DetailLog({})


def figures(timeline: Timeline, detail: DetailLog = NOTHING) -> LifeFigures:
    life = life_figures(timeline, detail)
    assert life is not None
    return life


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.floats(0, 9)), min_size=1))
def test_the_shares_are_the_whole_and_the_slowest_come_first(rows: list[Any]) -> None:
    requests = [(at, at + first, at + first + rest, 4) for at, first, rest in rows]
    timeline = made_timeline(requests, marks=made_marks(requests, 0.0))
    life = figures(timeline)
    assert life.requests == len(rows)
    whole = sum(part.share for part in life.parts)
    assert whole == pytest.approx(1, abs=1e-4) or sum(timeline.latency_ms) == 0
    latencies = [request.latency_ms for request in life.slowest]
    assert latencies == sorted(latencies, reverse=True)
    assert len(latencies) == min(SLOWEST, len(rows))
    for request in life.slowest:
        assert sum(request.parts_ms.values()) == pytest.approx(request.latency_ms, abs=0.01)
        assert request.cause
        issue_ms, first, words, _ = requests[request.sample]
        assert request.latency_ms == pytest.approx((words - issue_ms) * 1000, abs=0.01)
        del first


def slowest(rows: list[tuple[float, float, float, int]], **marks: Any) -> str:
    timeline = made_timeline(rows, marks=made_marks(rows, **marks))
    return figures(timeline).slowest[0].cause


USUAL = [(float(n), n + 0.2, n + 1.0, 20) for n in range(9)]


def test_a_long_answer_is_a_cause() -> None:
    cause = slowest([*USUAL, (20.0, 20.2, 25.0, 200)])
    assert cause == (
        "decode 4,800 ms where the median is 800: its answer has 200 tokens, the longest, 24.1 ms "
        "each"
    )


def test_a_long_prompt_is_a_cause() -> None:
    cause = slowest([*USUAL, (20.0, 24.0, 24.8, 20)])
    assert cause.startswith("prefill 3,990 ms where the median is 190: its prompt has 19 tokens")
    assert "the longest" in cause


def test_a_queue_is_a_cause_with_what_was_before_it() -> None:
    rows = [(0.0, 1.0, 2.0, 5), (0.1, 2.0, 3.0, 5), (0.2, 7.0, 8.0, 5)]
    marks = made_marks(rows)
    for row, scheduled in enumerate((0.0, 1.5, 6.5)):
        marks.times_s[1][row] = scheduled
    cause = figures(made_timeline(rows, marks=marks)).slowest[0].cause
    assert cause == (
        "queue 6,300 ms where the median is 1,400: queued behind 1 that waited, 11 prompt tokens, "
        "and 1 that ran"
    )


def test_a_preempted_request_says_so() -> None:
    assert slowest([*USUAL, (20.0, 20.2, 25.0, 20)], preempted=2).endswith("preempted 2 times")
    assert slowest([*USUAL, (20.0, 20.2, 25.0, 20)], preempted=1).endswith("preempted once")


def test_the_drain_is_what_follows_the_last_request() -> None:
    rows = [(0.0, 1.0, 4.0, 5), (0.0, 2.0, 8.0, 5)]
    timeline = made_timeline(rows, marks=made_marks(rows, 2.0))
    assert figures(timeline).drain == pytest.approx(0.75)
    assert figures(made_timeline(rows)).drain is None


def test_how_far_loadgen_and_the_lives_differ_is_said_only_where_they_begin_alike() -> None:
    timeline = made_timeline(USUAL)
    detail = DetailLog({"result_mean_latency_ns": 998_000_000, "result_max_latency_ns": 10**9})
    assert figures(timeline, detail).differs_ms is None
    same_clock = dataclasses.replace(timeline, from_loadgen=True)
    assert figures(same_clock, detail).differs_ms == pytest.approx(2)
    assert figures(same_clock).differs_ms is None


def test_a_timeline_of_an_older_suite_has_no_lives() -> None:
    assert life_figures(Timeline([0.0], None, [1.0], [2]), NOTHING) is None


def test_a_summary_is_read_as_it_was_written() -> None:
    life = figures(made_timeline(USUAL, marks=made_marks(USUAL)))
    summary = Summary(run=Run(performance=PerformanceFigures(life=life)))
    assert Summary.read(summary.as_json()).run.performance == summary.run.performance
