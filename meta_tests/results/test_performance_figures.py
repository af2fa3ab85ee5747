"""A performance run's figures: early stopping, shown wherever the 90th percentile is, and lives."""

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.made_lives import made_marks, made_timeline
from meta_tests.made_runs import detail_entries, line
from meta_tests.reports.outputs import reports_of, terminal_text
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.loadgen.logs import DetailLog, parse_detail
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.plugin.ci_reports import metrics
from mlperf_suite.reports.performance_sections import goodput_words
from mlperf_suite.results.performance_figures import (
    PERCENTILES,
    SLOWEST,
    early_stopping,
    goodput,
    performance_figures,
    time_breakdown,
)
from mlperf_suite.results.schema import EarlyStopping, Meta, Run, Summary, TimeBreakdown

SINGLE_STREAM = LLAMA3_1_8B_EDGE.scenario("SingleStream")
SERVER = LLAMA3_1_8B.scenario("Server")
DISCARDS_18 = (
    " * Processed at least 64 queries (320).  * Would discard 18 highest latency queries. "
)
ESTIMATES = DISCARDS_18 + (
    " * Early stopping 90.0th percentile estimate: {}"
    "  * Early stopping 99.0th percentile estimate: 99999999"
)
NOT_ENOUGH = (
    " * Only processed 40 queries.  * Need to process at least 64 queries for early stopping."
)
UNSUCCESSFUL = (
    " * Run unsuccessful.  * Processed 80 queries.  * Would need to run at least 379 more queries,"
    "  with the run being successful if every additional  query were under latency."
)


def _timeline(latencies_ms: list[float]) -> Timeline:
    zeros = tuple(0.0 for _ in latencies_ms)
    return Timeline(zeros, zeros, tuple(latencies_ms), tuple(2 for _ in latencies_ms))


def _log(scenario: Scenario, **entries: Any) -> DetailLog:
    of = LLAMA3_1_8B_EDGE if scenario is SINGLE_STREAM else LLAMA3_1_8B
    content = detail_entries(of, scenario, "performance", ROUNDS["v6.1"]) | entries
    return parse_detail("\n".join(line(key, value) for key, value in content.items()))


def _texts(ttft: str = "", tpot: str = "", **entries: Any) -> dict[str, Any]:
    return {"early_stopping_ttft_result": ttft, "early_stopping_tpot_result": tpot} | entries


def _early(scenario: Scenario, timeline: Timeline | None = None, **entries: Any) -> EarlyStopping:
    report = early_stopping(scenario, _log(scenario, **entries), timeline)
    assert report is not None
    return report


TOLD = _texts(ESTIMATES.format(1_090_215), ESTIMATES.format(999_610), result_query_count=320)


def test_loadgens_estimates_are_of_ttft_and_tpot_where_it_counts_tokens() -> None:
    report = _early(SINGLE_STREAM, **TOLD, early_stopping_latency_ss=1_090_215)
    assert (report.met, report.percentile) == (True, 90)
    assert report.estimates_ms == {"latency": None, "ttft": 1.090215, "tpot": 0.99961}


def test_the_latencys_estimate_follows_loadgens_rule() -> None:
    """The 18 highest are thrown away; the highest that is left is the estimate."""
    latencies = [float(i) for i in range(1, 321)]
    report = _early(SINGLE_STREAM, _timeline(latencies[::-1]), **TOLD)
    assert report.estimates_ms["latency"] == 302.0
    for shorter in (latencies[:-1], latencies[:10]):
        assert _early(SINGLE_STREAM, _timeline(shorter), **TOLD).estimates_ms["latency"] is None
    rows: list[Any] = [SINGLE_STREAM, _timeline(latencies)]
    by_itself = _early(*rows, **TOLD | {"early_stopping_result": ESTIMATES.format(5_000_000)})
    assert by_itself.estimates_ms["latency"] == 5.0


def test_without_an_estimate_there_are_loadgens_words_and_what_server_would_need() -> None:
    report = _early(SINGLE_STREAM, **_texts(tpot=NOT_ENOUGH), early_stopping_met=False)
    assert (report.met, set(report.estimates_ms.values())) == (False, {None})
    assert report.says["tpot"] == (
        "Only processed 40 queries. Need to process at least 64 queries for early stopping."
    )
    report = _early(SERVER, **_texts(tpot=UNSUCCESSFUL), early_stopping_met=False)
    assert report.more_queries == {"latency": None, "ttft": None, "tpot": 379}
    assert (report.percentile, report.says["ttft"]) == (99, None)


def test_offline_and_a_log_without_early_stopping() -> None:
    assert early_stopping(LLAMA3_1_8B.scenario("Offline"), _log(SERVER), None) is None
    empty = early_stopping(SINGLE_STREAM, DetailLog({}), None)
    assert empty is not None
    assert (empty.met, empty.percentile) == (None, None)
    assert {*empty.estimates_ms.values(), *empty.says.values()} == {None}


# Where the requests' time went, and why the slowest were slow

NOTHING = DetailLog({})


def lives(timeline: Timeline, detail: DetailLog = NOTHING) -> TimeBreakdown:
    life = time_breakdown(timeline, detail)
    assert life is not None
    return life


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.floats(0, 9)), min_size=1))
def test_the_shares_are_the_whole_and_the_slowest_come_first(rows: list[Any]) -> None:
    requests = [(at, at + first, at + first + rest, 4) for at, first, rest in rows]
    timeline = made_timeline(requests, timestamps=made_marks(requests, 0.0))
    life = lives(timeline)
    assert life.requests == len(rows)
    whole = sum(part.share for part in life.parts)
    assert whole == pytest.approx(1, abs=1e-4) or sum(timeline.latency_ms) == 0
    latencies = [request.latency_ms for request in life.slowest]
    assert latencies == sorted(latencies, reverse=True)
    assert len(latencies) == min(SLOWEST, len(rows))
    for request in life.slowest:
        assert sum(request.parts_ms.values()) == pytest.approx(request.latency_ms, abs=0.01)
        assert request.cause
        issue_ms, _, words, _ = requests[request.sample]
        assert request.latency_ms == pytest.approx((words - issue_ms) * 1000, abs=0.01)


def slowest(rows: list[tuple[float, float, float, int]], **marks: Any) -> str:
    timeline = made_timeline(rows, timestamps=made_marks(rows, **marks))
    return lives(timeline).slowest[0].cause


USUAL = [(float(n), n + 0.2, n + 1.0, 20) for n in range(9)]


@pytest.mark.parametrize(
    ("row", "preempted", "cause"),
    [
        (
            *((20.0, 20.2, 25.0, 200), 0),
            "decode 4,800 ms where the median is 800.0: its answer has 200 tokens, the longest, "
            "24.12 ms each",
        ),
        (
            *((20.0, 24.0, 24.8, 20), 0),
            "prefill 3,990 ms where the median is 190.0: its prompt has 19 tokens, the longest",
        ),
        *(((20.0, 20.2, 25.0, 20), n, words) for n, words in ((1, "once"), (2, "2 times"))),
    ],
)
def test_the_slowest_request_has_its_cause(
    row: tuple[float, float, float, int], preempted: int, cause: str
) -> None:
    """A long answer, a long prompt, being preempted."""
    found = slowest([*USUAL, row], preempted=preempted)
    assert found.endswith(f"preempted {cause}") if preempted else found == cause


def test_a_queue_is_a_cause_with_what_was_before_it() -> None:
    rows = [(0.0, 1.0, 2.0, 5), (0.1, 2.0, 3.0, 5), (0.2, 7.0, 8.0, 5)]
    marks = made_marks(rows)
    for row, scheduled in enumerate((0.0, 1.5, 6.5)):
        marks.times_s[1][row] = scheduled
    cause = lives(made_timeline(rows, timestamps=marks)).slowest[0].cause
    assert cause == (
        "queue 6,300 ms where the median is 1,400: queued behind 1 that waited, 11 prompt tokens, "
        "and 1 that ran"
    )


def test_the_drain_is_what_follows_the_last_request() -> None:
    rows = [(0.0, 1.0, 4.0, 5), (0.0, 2.0, 8.0, 5)]
    assert lives(made_timeline(rows, timestamps=made_marks(rows, 2.0))).drain == pytest.approx(0.75)
    assert lives(made_timeline(rows)).drain is None


def test_how_far_loadgen_and_the_lives_differ_is_said_only_where_they_begin_alike() -> None:
    timeline = made_timeline(USUAL)
    detail = DetailLog({"result_mean_latency_ns": 998_000_000, "result_max_latency_ns": 10**9})
    assert lives(timeline, detail).differs_ms is None
    same_clock = dataclasses.replace(timeline, from_loadgen=True)
    assert lives(same_clock, detail).differs_ms == pytest.approx(2)
    assert lives(same_clock).differs_ms is None
    # Of an older suite.
    assert time_breakdown(Timeline([0.0], None, [1.0], [2]), NOTHING) is None


# Where people and programs read it


def _summary(scenario: Scenario, timeline: Timeline | None = None, **entries: Any) -> Summary:
    nanoseconds = {
        key.format(p): 4_000_000
        for p in PERCENTILES
        for key in (
            "result_{}_percentile_latency_ns",
            "result_first_token_{}_percentile_latency_ns",
        )
    }
    detail = _log(scenario, **nanoseconds | entries)
    figures = performance_figures(scenario, detail, 10.0, 100, timeline)
    meta = Meta(benchmark="llama3.1-8b-edge", category="edge", scenario=scenario.name)
    return Summary(meta=meta, run=Run(performance=figures))


def test_early_stopping_stands_beside_the_90th_percentile_and_in_words() -> None:
    summary = _summary(SINGLE_STREAM, _timeline([float(i) for i in range(1, 321)]), **TOLD)
    text, page = reports_of(summary)
    for row in (
        "time | mean | p50 | p90 | p90 by early stopping | p95 | p97 | p99 | p99.9",
        "latency, ms | 270.0 | 4.00 | 4.00 | 302.0 | 4.00 | 4.00 | 4.00 | 4.00",
        "TTFT, ms | 90.00 | 4.00 | 4.00 | 1.09 | 4.00 | 4.00 | 4.00 | 4.00",
    ):
        assert f"| {row} |" in text
    assert "<dt>p90 by early stopping</dt><dd>302.0 ms</dd>" in page
    assert "p90 by early stopping 302.0 ms" in " ".join(terminal_text(summary).split())
    detail = metrics(summary, "performance")
    assert detail["latency_ms_early_stopping"] == 302
    reason = "TTFT constrain not met: Reduce target QPS to improve latency."
    invalid = {"result_validity": "INVALID", "result_invalid_reason": reason}
    texts = _texts(tpot=UNSUCCESSFUL, early_stopping_met=False)
    summary = _summary(SERVER, **texts | invalid)
    for text in reports_of(summary):
        assert f"LoadGen says INVALID: {reason}" in text
        assert "Early stopping of TPOT at p99: Run unsuccessful. Processed 80 queries." in text
    assert metrics(summary, "performance")["tpot_more_queries"] == 379


# Goodput

LIMITS = {"ttft": 100, "tpot": 10}


def test_goodput_needs_limits_and_the_times_of_all_requests() -> None:
    streamed = Timeline([0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [2, 2])
    assert goodput(streamed, LIMITS) is not None
    assert goodput(streamed, {}) is None
    assert goodput(None, LIMITS) is None
    for first in (None, [2.0, math.nan]):
        assert goodput(dataclasses.replace(streamed, first_token_ms=first), LIMITS) is None
    whole = dataclasses.replace(streamed, first_token_ms=None, finished_ms=[4.0, 15.0])
    good = goodput(whole, {"latency": 10}, 4.0)
    assert good is not None
    assert (good.within, good.beyond_latency, good.latency_limit_ms) == (1, 1, 10)
    # At both limits, beyond one, the other and both, of one token, of two of which one is late.
    ttft_ms, rest_ms = [100, 101, 100, 101, 9, 9], [20, 20, 21, 21, 99, 11]
    first_ms = [7.0 + ms for ms in ttft_ms]
    ended_ms = [first + rest for first, rest in zip(first_ms, rest_ms, strict=True)]
    both = goodput(Timeline([7.0] * 6, first_ms, ended_ms, [3, 3, 3, 3, 1, 2]), LIMITS, 3.0)
    assert both is not None
    assert (both.within, both.beyond_ttft, both.beyond_tpot) == (2, 2, 3)
    assert both.samples_per_sec == 1
    # Never rounded up.
    nearly = dataclasses.replace(good, requests=10_000, within=9_896, samples_per_sec=None)
    assert goodput_words(nearly).startswith("98.9% of 10,000")
