"""Bounds of figures: those of any answers lie within them, and rounding is allowed for."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, as_printed
from meta_tests.tampering.rule_breaks import not_passed, verdict_on
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.log_consistency.agreement import FigureRange
from mlperf_suite.features.log_consistency.log_figures import (
    LATENCY,
    PERCENTILES,
    TPOT,
    TTFT,
    LatencyKeys,
    _unwrapped,
    mean_bounds,
    places_at,
)
from mlperf_suite.rules import judge

NANOSECONDS = st.integers(1, 10**12)


def places(values: list[int]) -> tuple[float, ...]:
    """Minimum, percentiles and maximum as LoadGen takes them."""
    ascending = sorted(values)
    percentiles = [ascending[int(len(ascending) * (float(p) / 100))] for p in PERCENTILES]
    return (ascending[0], *percentiles, ascending[-1])


@given(st.lists(NANOSECONDS, min_size=1, max_size=300))
def test_the_mean_of_any_latencies_is_within_the_bounds(values: Any) -> None:
    bounds = mean_bounds(places(values), len(values))
    mean = sum(values) / len(values)
    assert bounds.low * (1 - 1e-9) <= mean <= bounds.high * (1 + 1e-9)


def test_bounds_of_a_mean_are_no_wider_than_they_need_be() -> None:
    # Of two: the place of each percentile is the second, which is the maximum.
    assert mean_bounds((1, 5, 5, 5, 5, 5, 5, 5), 2) == FigureRange(3.0, 3.0)


def test_a_sum_beyond_64_bits_is_known_by_what_is_left_of_it() -> None:
    count, mean = 1_700_000, 12_000_000_000_000
    remainder = (count * mean % 2**64) // count
    mean_ns, wraps = _unwrapped(remainder, FigureRange(mean * 0.5, mean * 1.1), count)
    assert wraps == 1 and abs(mean_ns - mean) < 2
    assert _unwrapped(mean, FigureRange(mean * 0.5, mean * 1.1), count) == (mean, 0)


@given(st.floats(1e-9, 1e15))
def test_what_was_printed_is_within_what_it_may_have_been(value: Any) -> None:
    figure = float(f"{value:.6g}")
    assert FigureRange.from_printed(figure).holds(value)
    assert (
        FigureRange.from_printed(figure).high - FigureRange.from_printed(figure).low
        <= 1.1e-5 * figure
    )


ANSWERS = st.lists(
    st.tuples(NANOSECONDS, st.integers(1, 10**9), st.integers(2, 128)), min_size=20, max_size=200
)


@settings(max_examples=40)
@given(ANSWERS, st.floats(0, 1))
def test_the_figures_of_any_answers_pass(answers: Any, late: Any) -> None:
    """A Server run's rules on latencies, of answers of any lengths and paces whose first token
    takes at least as long as a further one."""
    answers = [(max(ttft, tpot), tpot, tokens) for ttft, tpot, tokens in answers]
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    whole = [ttft + tpot * (tokens - 1) for ttft, tpot, tokens in answers]
    ttfts, tpots = [answer[0] for answer in answers], [answer[1] for answer in answers]
    for family, values in ((LATENCY, whole), (TTFT, ttfts), (TPOT, tpots)):
        run.entries |= dict(zip(family.places, places(values), strict=True))
        run.entries[family.mean] = sum(values) // len(values)
    count, tokens = len(answers), sum(answer[2] for answer in answers)
    done_s = 600 + whole[-1] / 1e9
    run.entries |= {
        "result_query_count": count,
        "result_scheduled_samples_per_sec": as_printed((count - 1) / 600),
        "result_token_throughput_with_loadgen_overhead": as_printed(
            tokens / (600 + late * (done_s - 600))
        ),
        "result_completed_samples_per_sec": as_printed((count - 1) / done_s),
        "result_completed_tokens_per_second": as_printed(tokens / done_s),
        "result_token_throughput": as_printed(tokens / (sum(whole) // count * count)),
    }
    failures = not_passed(judge(run.facts()))
    of_latency = {"percentile_order", "mean_in_percentiles", "token_times", "token_rate"}
    of_latency |= {"issued_token_rate"}
    assert {name: line for name, line in failures.items() if name in of_latency} == {}


@pytest.mark.parametrize("name", ["Server", "Interactive"])
def test_no_query_is_issued_before_its_time_or_after_its_answer(name: Any) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario(name), "performance")
    tokens_rate = run.entries["result_completed_tokens_per_second"]
    due_rate, end_rate = (
        run.entries[f"result_{kind}_samples_per_sec"] for kind in ("scheduled", "completed")
    )
    for rate, status in (
        # The figures that it is made of are rounded themselves.
        (tokens_rate * due_rate / end_rate * (1 - 2e-5), "passed"),
        (tokens_rate, "passed"),
        (tokens_rate * due_rate / end_rate * 1.001, "failed"),
        (tokens_rate * 0.999, "failed"),
    ):
        run.entries["result_token_throughput_with_loadgen_overhead"] = as_printed(rate)
        verdict = verdict_on(run.facts(), "issued_token_rate")
        assert verdict.status == status, verdict.line


@pytest.mark.parametrize(
    ("family", "alike", "status"),
    [(TPOT, 0.999, "passed"), (TPOT, 0.0, "failed"), (TTFT, 0.999, "failed")],
)
def test_the_answers_of_a_batch_may_have_one_tpot(
    family: LatencyKeys, alike: float, status: str
) -> None:
    """As LoadGen has them of an engine that reports a step's first and last tokens at once."""
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    count, longest = run.entries["result_query_count"], run.entries[family.places[-1]]
    for key, place in zip(family.places, places_at(count), strict=True):
        if place >= int(alike * count):
            run.entries[key] = longest
    assert verdict_on(run.facts(), "percentile_order").status == status
