"""Bounds of figures: those of any answers lie within them, and rounding is allowed for."""

from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, as_printed
from meta_tests.tampering.rule_breaks import verdict_on
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.log_consistency.agreement import FigureRange
from mlperf_suite.features.log_consistency.log_figures import (
    TPOT,
    TTFT,
    LatencyKeys,
    _unwrapped,
    mean_bounds,
    places_at,
)


def test_bounds_of_a_mean_are_no_wider_than_they_need_be() -> None:
    # Of two: the place of each percentile is the second, which is the maximum.
    assert mean_bounds((1, 5, 5, 5, 5, 5, 5, 5), 2) == FigureRange(3.0, 3.0)


def test_a_sum_beyond_64_bits_is_known_by_what_is_left_of_it() -> None:
    count, mean = 1_700_000, 12_000_000_000_000
    remainder = (count * mean % 2**64) // count
    mean_ns, wraps = _unwrapped(remainder, FigureRange(mean * 0.5, mean * 1.1), count)
    assert wraps == 1 and abs(mean_ns - mean) < 2
    assert _unwrapped(mean, FigureRange(mean * 0.5, mean * 1.1), count) == (mean, 0)


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
