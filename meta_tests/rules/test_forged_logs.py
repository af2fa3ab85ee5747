"""Small forgeries of a submission's logs that no break of a single rule shows, and who sees them.

evidence/forgeries/ has many more, of logs that LoadGen wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, cut_log, line, summary_of
from meta_tests.tampering.rule_breaks import not_passed, verdict_on
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import AnswerTokens
from mlperf_suite.rules.figures import LATENCY, TPOT, TTFT

Forgery = Callable[[MadeRun], object]


def made(scenario: str = "Server", mode: Mode = "performance") -> MadeRun:
    where = LLAMA3_1_8B.scenario(scenario)
    return MadeRun(LLAMA3_1_8B, where, mode, ROUNDS["v6.1"], submitted=True)


def both(**entries: Any) -> Forgery:
    """Values of the detail log, and of the summary where it has them."""

    def forge(run: MadeRun) -> None:
        run.entries |= entries
        run.summary = summary_of(run.entries)

    return forge


def times(factor: float, *keys: str) -> Forgery:
    """Figures of both files times a factor."""

    def forge(run: MadeRun) -> None:
        both(**{key: _times(run.entries[key], factor) for key in keys})(run)

    return forge


def _times(figure: Any, factor: float) -> Any:
    return round(figure * factor) if isinstance(figure, int) else float(f"{figure * factor:.6g}")


def words(old: str, new: str) -> Forgery:
    """Other words in the summary alone, which must have the old ones."""

    def forge(run: MadeRun) -> None:
        run.summary, count = re.subn(old, new, run.summary, flags=re.MULTILINE)
        assert count

    return forge


def more_lines(*lines: str) -> Forgery:
    return lambda run: run.broken_lines.extend(lines)


def place_of(key: str, other: str) -> Forgery:
    """A latency that is another one, in both files."""
    return lambda run: both(**{key: run.entries[other]})(run)


NO_ERRORS, NO_WARNINGS = "^No errors encountered during test.", "^No warnings encountered.*"
UNSUCCESSFUL = " * Run unsuccessful."
SUMMARIES: dict[str, Forgery] = {
    "advice": words("^TTFT Early", "Recommendations:\n * Reduce target QPS.\nTTFT Early"),
    "early stopping unsuccessful": words(r"(TTFT.*:\n) \* Run success", r"\1 * Run unsuccess"),
    "errors": words(NO_ERRORS, "2 ERRORS encountered. See detailed log."),
    "no word on errors": words(NO_ERRORS, ""),
    "warnings": words(NO_WARNINGS, "3 warnings encountered. See detailed log."),
    "no word on warnings": words(NO_WARNINGS, ""),
    "a warning in the detail log": more_lines(line("warning_generic_message", "x", warning=True)),
    "no percentiles": words(r"^[\d.]+(th)? percentile latency.*\n", ""),
    "no limits": words(r"^t[tp].t_latency \(ns\) .*\n", ""),
    "a figure of its own": words("^(Completed tokens.*)", r"\1\nSustained tokens per second: 9"),
    "a sentence that says NO": words(r"^(Min queries satisfied) : Yes", r"\1 : NO"),
    "a rate a cent off": words(r"^(Completed samples per second :) .*", r"\1 1.0"),
    "a figure that is no number": words(r"^(Completed samples per second :) .*", r"\1 nan"),
    "an integer one more": lambda run: words(
        rf"^(max_async_queries) : {run.entries['effective_max_async_queries']}$", r"\1 : 1"
    )(run),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_another_summary_is_seen(name: str) -> None:
    run = made()
    SUMMARIES[name](run)
    assert set(not_passed(judge(run.facts()))) == {"summary_agrees"}


@pytest.mark.parametrize("count", [1, 2])
def test_warnings_that_both_files_have_pass(count: int) -> None:
    run = made()
    more_lines(*[line("warning_generic_message", "x", warning=True)] * count)(run)
    number = "1 warning" if count == 1 else f"{count} warnings"
    words(NO_WARNINGS, f"{number} encountered. See detailed log.")(run)
    assert not_passed(judge(run.facts())) == {}


TOKENS_PER_S = (
    "result_completed_tokens_per_second",
    "result_token_throughput",
    "result_token_throughput_with_loadgen_overhead",
)
ALL_TTFT = (*TTFT.places, TTFT.mean)
LATENCIES = (*LATENCY.places, LATENCY.mean)
P50, P90, P99, P999 = (TTFT.percentile.format(p) for p in ("50.00", "90.00", "99.00", "99.90"))
TOO_FEW = " * Only processed 63 queries.  * Need to process at least 64 queries for early stopping."


def more_queries(run: MadeRun) -> None:
    run.entries["result_query_count"] = run.entries["generated_query_count"] + 1


def of_two_processes(run: MadeRun) -> None:
    run.broken_lines.append(line("generic_message", "x").replace('"pid": 1', '"pid": 2'))


FORGED: dict[str, tuple[str, Forgery]] = {
    # LoadGen's own verdict, and what it is made of
    "tokens of early stopping": (
        "validity_agrees",
        both(early_stopping_tpot_result=UNSUCCESSFUL),
    ),
    "words that are not LoadGen's": (
        "validity_agrees",
        both(early_stopping_ttft_result=" * Not needed."),
    ),
    "the minimum duration not met": ("validity_agrees", both(result_min_duration_met=False)),
    "the minimum of queries not met": ("validity_agrees", both(result_min_queries_met=False)),
    "the limits not met": ("validity_agrees", both(result_perf_constraints_met=False)),
    "INVALID": ("result_valid validity_agrees log_lines", both(result_validity="INVALID")),
    "no query over its latency": ("validity_agrees", both(result_overlatency_query_count=0)),
    "twelve queries over it": ("validity_agrees", both(result_overlatency_query_count=12)),
    "a limit that every query kept": (
        "validity_agrees",
        both(requested_server_target_latency_ns=10**13, effective_target_latency_ns=10**13),
    ),
    # Why LoadGen would have ended the run before
    "at most ten queries at once": (
        "queries_issued",
        both(requested_server_max_async_queries=10, effective_max_async_queries=10),
    ),
    "at most a thousand queries": (
        "queries_issued",
        both(requested_max_query_count=1000, effective_max_query_count=1000),
    ),
    "at most five minutes": (
        "queries_issued",
        both(requested_max_duration_ms=300_000, effective_max_duration_ms=300_000),
    ),
    # Time
    "two processes": ("time_stamps", of_two_processes),
    "a window of no length": (
        "time_span query_rate queries_issued",
        both(power_end="03-04-2026 09:59:00.000"),
    ),
    "a day to come": (
        "clock_dates",
        lambda run: both(
            **{
                key: run.entries[key].replace("2026", "2926")
                for key in ("power_begin", "power_end", "test_datetime")
            }
        )(run),
    ),
    "built before its sources": (
        "clock_dates",
        both(loadgen_build_date_utc="2026-01-01T10:00:00.000000"),
    ),
    "run before it was built": (
        "clock_dates",
        both(loadgen_build_date_utc="2026-03-05T10:00:00.000000"),
    ),
    # Latencies
    "a TTFT of 0": ("percentile_order mean_in_percentiles", both(**{TTFT.places[0]: 0})),
    "TTFT a thousandth": ("percentile_order token_times", times(0.001, *ALL_TTFT)),
    "TTFT of p50 as of p90": ("percentile_order", place_of(P90, P50)),
    "TTFT of p99 as of p99.9": ("percentile_order", place_of(P999, P99)),
    "the longest TTFT is p99.9's": ("percentile_order", place_of(TTFT.places[-1], P999)),
    "4% more tokens in each of their figures": (
        "token_times tokens_as_in_accuracy",
        times(1.04, *TOKENS_PER_S),
    ),
    "4% less time for each token": ("token_times", times(0.96, *TPOT.places, TPOT.mean)),
    "a mean below the least": ("mean_in_percentiles token_times", times(0.9, TTFT.mean)),
    # Lines
    "an error marked as none": ("log_lines", more_lines(line("error_runtime", "x"))),
    "a count that is no number": (
        "log_lines",
        both(logger_tls_total_log_cas_fail_count=math.nan),
    ),
    "a duration without end": ("log_lines", both(get_sut_name_duration_ns=math.inf)),
    "a count below 0": ("log_lines", both(qsl_reported_performance_count=-1)),
    # LoadGen
    "a release that never was": (
        "loadgen_files",
        both(loadgen_version="6.0.99 @ made up"),
    ),
    "the log of another commit": (
        "loadgen_files",
        both(loadgen_git_log_message="4c52c8e3b1 Increment version to 6.0.14"),
    ),
    "an older name": ("loadgen_files", both(loadgen_version="6.0.14 @ made up")),
    "no hashes": ("loadgen_files", both(loadgen_file_sha1={})),
    "hashes that are none": ("loadgen_files", both(loadgen_file_sha1={"/results.cc": "x" * 40})),
    # Settings
    "the same sample in each query": (
        "samples_drawn",
        both(requested_performance_issue_same=True, effective_performance_issue_same=True),
    ),
    "asked for one minute": ("settings_took", both(requested_min_duration_ms=60_000)),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forgery_is_seen_by_its_rules_alone(name: str) -> None:
    rules, forge = FORGED[name]
    run = made()
    forge(run)
    assert set(not_passed(judge(run.facts()))) == set(rules.split())


IN_SINGLE_STREAM: dict[str, tuple[str, Forgery]] = {
    "another estimate": ("validity_agrees", both(early_stopping_latency_ss=1)),
    "words of Server": ("validity_agrees", both(early_stopping_ttft_result=" * Run successful.")),
    "as many queries as were made": ("queries_issued", more_queries),
    "a rate of another latency": ("query_rate", times(1.01, "result_qps_without_loadgen_overhead")),
}


@pytest.mark.parametrize("name", IN_SINGLE_STREAM)
def test_a_forgery_of_single_stream_is_seen(name: str) -> None:
    rule, forge = IN_SINGLE_STREAM[name]
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    assert verdict_on(run.facts(), rule).status == "passed"
    forge(run)
    assert verdict_on(run.facts(), rule).status == "failed"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "passed"),
        ({"early_stopping_tpot_result": "Only processed 63 queries."}, "failed"),
        ({"early_stopping_ttft_result": TOO_FEW}, "failed"),
        ({"early_stopping_met": True}, "failed"),
        ({"result_validity": "VALID"}, "failed"),
        ({"result_min_queries_met": True}, "failed"),
        ({"result_min_duration_met": True}, "failed"),
    ],
)
def test_a_run_of_too_few_queries_is_invalid_in_loadgens_words(
    changes: dict[str, Any], status: str
) -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    run.entries |= {
        "result_query_count": 63,
        "result_min_queries_met": False,
        "result_min_duration_met": False,
        "result_validity": "INVALID",
        "early_stopping_met": False,
        "early_stopping_tpot_result": TOO_FEW,
        # LoadGen looks at TTFT only where TPOT passed.
        "early_stopping_ttft_result": "",
        **changes,
    }
    assert verdict_on(run.facts(), "validity_agrees").status == status


@pytest.mark.parametrize(("queries", "status"), [(459, "passed"), (458, "failed")])
def test_early_stopping_is_successful_from_its_number_of_queries_on(
    queries: int, status: str
) -> None:
    run = made()
    run.entries |= {
        "result_query_count": queries,
        "result_overlatency_query_count": queries,
        "result_min_duration_met": False,
        "result_validity": "INVALID",
    }
    assert verdict_on(run.facts(), "validity_agrees").status == status


@pytest.mark.parametrize("scenario", ["Offline", "Server"])
def test_a_cut_log_of_short_answers_is_seen(scenario: str) -> None:
    where = LLAMA2_70B_99.scenario(scenario)
    run = MadeRun(LLAMA2_70B_99, where, "accuracy", ROUNDS["v6.0"], submitted=True)
    # Of 294.45 tokens on average, one answer at least has a quarter.
    for longer, status in ((71, "passed"), (70, "failed")):
        run.cut_log = cut_log(tuple(run.answers), where.streams, longer)
        assert verdict_on(run.facts(), "accuracy_log_tokens").status == status


@pytest.mark.parametrize(
    ("answers", "longer", "status"),
    [
        # Of many answers 3% more or 5% less pass, of few a share of 2 by the root of their number.
        (13_368, 0.029, "passed"),
        (13_368, 0.031, "failed"),
        (13_368, -0.049, "passed"),
        (13_368, -0.051, "failed"),
        (400, 0.099, "passed"),
        (400, 0.101, "failed"),
        (400, -0.099, "passed"),
        (400, -0.101, "failed"),
        (0, 0.0, "not judged"),
    ],
)
def test_answers_are_as_long_as_in_the_accuracy_run(
    answers: int, longer: float, status: str
) -> None:
    run = made("Offline")
    tokens = run.entries["result_tokens_per_second"] / run.entries["result_samples_per_second"]
    run.accuracy_tokens = AnswerTokens(tokens / (1 + longer), answers)
    assert verdict_on(run.facts(), "tokens_as_in_accuracy").status == status


SCORES: dict[str, dict[str, float]] = {
    "a longest sequence above the words": {"rougeL": 78.1},
    "pairs above the words": {"rouge2": 78.1},
    "a figure without a limit of its own": {"rougeLsum": 79.9},
    "fewer tokens in all than their mean says": {"gen_len": 9e6, "gen_tok_len": 2_457_600.0},
    "fewer characters than tokens": {"gen_len": 24_576.0, "gen_tok_len": 7_225_344.0},
    "more characters than tokens have": {"gen_len": 2e8, "gen_tok_len": 7_225_344.0},
    "no number": {"gen_tok_len": math.nan},
}


@pytest.mark.parametrize("name", SCORES)
def test_scores_that_no_answers_have_are_seen(name: str) -> None:
    scenario = LLAMA2_70B_99.scenario("Server")
    run = MadeRun(LLAMA2_70B_99, scenario, "accuracy", ROUNDS["v6.0"], submitted=True)
    # 294 tokens an answer, as the tokens of the table have them.
    run.scores |= {"tokens_per_sample": 294.0, "gen_num": 24_576.0}
    right = {"gen_len": 28_901_376.0, "gen_tok_len": 7_225_344.0}
    run.scores |= right
    assert not_passed(judge(run.facts())) == {}
    run.scores |= SCORES[name]
    assert set(not_passed(judge(run.facts()))) == {"accuracy_score_figures"}


VERIFIED: dict[str, tuple[str, Callable[[list[str]], list[str]]]] = {
    "failed on another line": ("Server", lambda lines: [*lines, "First token check pass: False"]),
    "passed where none is reported": (
        "Offline",
        lambda lines: [*lines, "First token check pass: True"],
    ),
    "skipped": ("Server", lambda lines: ["First token check pass: Skipped", *lines[1:]]),
    "failed as a whole": ("Server", lambda lines: [*lines[:-1], "TEST06 verification failed"]),
    "failed at its end": ("Server", lambda lines: [*lines, "TEST FAIL"]),
    "of another audit": ("Server", lambda lines: ["TEST09: Verify Output Token Length", *lines]),
}


@pytest.mark.parametrize("name", VERIFIED)
def test_an_audits_verification_says_nothing_else(name: str) -> None:
    scenario, change = VERIFIED[name]
    run = made(scenario, "test06")
    run.verify = change(run.verify)
    assert set(not_passed(judge(run.facts()))) == {"test06_verified"}


@pytest.mark.parametrize(("alike", "status"), [(50, "passed"), (51, "failed")])
def test_most_answers_of_an_audit_are_not_the_same(alike: int, status: str) -> None:
    run = made("Offline", "test06")
    first = run.answers[0].token_ids
    run.answers[:alike] = [replace(answer, token_ids=first) for answer in run.answers[:alike]]
    assert verdict_on(run.facts(), "test06_answers").status == status


def test_in_offline_answers_may_come_all_at_once_but_not_in_no_time() -> None:
    run = made("Offline")
    most = run.entries[LATENCY.places[-1]]
    both(**dict.fromkeys(LATENCIES, most))(run)
    assert not_passed(judge(run.facts())) == {}
    run.entries[LATENCY.places[0]] = 0
    assert verdict_on(run.facts(), "percentile_order").status == "failed"
