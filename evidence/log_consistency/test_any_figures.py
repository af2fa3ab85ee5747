"""Figures of any answers pass the rules of a log's consistency."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, as_printed
from meta_tests.tampering.rule_breaks import not_passed
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.log_consistency.agreement import FigureRange
from mlperf_suite.features.log_consistency.log_figures import (
    LATENCY,
    PERCENTILES,
    TPOT,
    TTFT,
    mean_bounds,
)
from mlperf_suite.rules import judge

NANOSECONDS = st.integers(1, 10**12)

ANSWERS = st.lists(
    st.tuples(NANOSECONDS, st.integers(1, 10**9), st.integers(2, 128)), min_size=20, max_size=200
)


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


@given(st.floats(1e-9, 1e15))
def test_what_was_printed_is_within_what_it_may_have_been(value: Any) -> None:
    figure = float(f"{value:.6g}")
    assert FigureRange.from_printed(figure).holds(value)
    assert (
        FigureRange.from_printed(figure).high - FigureRange.from_printed(figure).low
        <= 1.1e-5 * figure
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
