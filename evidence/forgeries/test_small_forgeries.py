"""Small forgeries of made-up logs that no break of a single rule shows, and who sees them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, as_printed, line, summary_of
from meta_tests.tampering.rule_breaks import not_passed, verdict_on
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.rules import judge
from mlperf_suite.rules.figures import TPOT, TTFT

Forgery = Callable[[MadeRun], object]


def made(scenario: str = "Server", mode: Mode = "performance") -> MadeRun:
    where = LLAMA3_1_8B.scenario(scenario)
    return MadeRun(LLAMA3_1_8B, where, mode, ROUNDS["v6.1"], submitted=True)


def both(**entries: Any) -> Forgery:
    """Values of the detail log, and of the summary where it has them; functions of the old."""

    def forge(run: MadeRun) -> None:
        for key, new in entries.items():
            run.entries[key] = new(run.entries[key]) if callable(new) else new
        run.summary = summary_of(run.entries)

    return forge


def times(factor: float, *keys: str) -> Forgery:
    """Figures of both files times a factor."""

    def scaled(figure: Any) -> Any:
        is_whole = isinstance(figure, int)
        return round(figure * factor) if is_whole else as_printed(figure * factor)

    return both(**dict.fromkeys(keys, scaled))


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


def asked_for(name: str, value: object) -> Forgery:
    return both(**{f"requested_{name}": value, f"effective_{name}": value})


def broken_by(forge: Forgery) -> set[str]:
    run = made()
    forge(run)
    return set(not_passed(judge(run.facts())))


NO_ERRORS, NO_WARNINGS = "^No errors encountered during test.", "^No warnings encountered.*"
UNSUCCESSFUL = " * Run unsuccessful."
COMPLETED = r"^(Completed samples per second :) .*"
SUMMARIES: dict[str, Forgery] = {
    "advice": words("^TTFT Early", "Recommendations:\n * Reduce target QPS.\nTTFT Early"),
    "early stopping unsuccessful": words(r"(TTFT.*:\n) \* Run success", r"\1 * Run unsuccess"),
    "errors": words(NO_ERRORS, "2 ERRORS encountered. See detailed log."),
    "no word on errors": words(NO_ERRORS, ""),
    "warnings": words(NO_WARNINGS, "3 warnings encountered. See detailed log."),
    "a warning in the detail log": more_lines(line("warning_generic_message", "x", warning=True)),
    "no percentiles": words(r"^[\d.]+(th)? percentile latency.*\n", ""),
    "a figure of its own": words("^(Completed tokens.*)", r"\1\nSustained tokens per second: 9"),
    "a sentence that says NO": words(r"^(Min queries satisfied) : Yes", r"\1 : NO"),
    "a rate a cent off": words(COMPLETED, r"\1 1.0"),
    "a figure that is no number": words(COMPLETED, r"\1 nan"),
    "another integer": words(r"^(max_async_queries) : .*$", r"\1 : 17"),
}


@pytest.mark.parametrize("forge", SUMMARIES.values(), ids=SUMMARIES)
def test_another_summary_is_seen(forge: Forgery) -> None:
    assert broken_by(forge) == {"summary_agrees"}


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
P50, P90, P99, P999 = (TTFT.percentile.format(p) for p in ("50.00", "90.00", "99.00", "99.90"))
TOO_FEW = " * Only processed 63 queries.  * Need to process at least 64 queries for early stopping."


def more_queries(run: MadeRun) -> None:
    run.entries["result_query_count"] = run.entries["generated_query_count"] + 1


def of_two_processes(run: MadeRun) -> None:
    run.broken_lines.append(line("generic_message", "x").replace('"pid": 1', '"pid": 2'))


def a_day_to_come(run: MadeRun) -> None:
    keys = ("power_begin", "power_end", "test_datetime")
    both(**dict.fromkeys(keys, lambda text: text.replace("2026", "2926")))(run)


FORGED: dict[str, dict[str, Forgery]] = {
    # LoadGen's own verdict, and what it is made of
    "validity_agrees": {
        "tokens of early stopping": both(early_stopping_tpot_result=UNSUCCESSFUL),
        "words that are not LoadGen's": both(early_stopping_ttft_result=" * Not needed."),
        "the minimum duration not met": both(result_min_duration_met=False),
        "the minimum of queries not met": both(result_min_queries_met=False),
        "the limits not met": both(result_perf_constraints_met=False),
        "no query over its latency": both(result_overlatency_query_count=0),
        "twelve queries over it": both(result_overlatency_query_count=12),
        "a limit that every query kept": both(
            requested_server_target_latency_ns=10**13, effective_target_latency_ns=10**13
        ),
    },
    "result_valid validity_agrees log_lines": {"INVALID": both(result_validity="INVALID")},
    # Why LoadGen would have ended the run before
    "queries_issued": {
        "at most ten queries at once": both(
            requested_server_max_async_queries=10, effective_max_async_queries=10
        ),
        "at most a thousand queries": asked_for("max_query_count", 1000),
        "at most five minutes": asked_for("max_duration_ms", 300_000),
    },
    "time_stamps": {"two processes": of_two_processes},
    "time_span query_rate queries_issued": {
        "a window of no length": both(power_end="03-04-2026 09:59:00.000")
    },
    "clock_dates": {
        "a day to come": a_day_to_come,
        "built before its sources": both(loadgen_build_date_utc="2026-01-01T10:00:00.000000"),
        "run before it was built": both(loadgen_build_date_utc="2026-03-05T10:00:00.000000"),
    },
    "percentile_order": {
        "TTFT of p50 as of p90": place_of(P90, P50),
        "TTFT of p99 as of p99.9": place_of(P999, P99),
        "the longest TTFT is p99.9's": place_of(TTFT.places[-1], P999),
    },
    "percentile_order mean_in_percentiles": {"a TTFT of 0": both(**{TTFT.places[0]: 0})},
    "percentile_order token_times": {"TTFT a thousandth": times(0.001, *TTFT.places, TTFT.mean)},
    "token_times tokens_as_in_accuracy": {"4% more tokens": times(1.04, *TOKENS_PER_S)},
    "token_times": {"4% less time for each token": times(0.96, *TPOT.places, TPOT.mean)},
    "mean_in_percentiles token_times": {"a mean below the least": times(0.9, TTFT.mean)},
    "log_lines": {
        "an error marked as none": more_lines(line("error_runtime", "x")),
        "a count that is no number": both(logger_tls_total_log_cas_fail_count=math.nan),
        "a duration without end": both(get_sut_name_duration_ns=math.inf),
        "a count below 0": both(qsl_reported_performance_count=-1),
    },
    "loadgen_files": {
        "a release that never was": both(loadgen_version="6.0.99 @ made up"),
        "the log of another commit": both(loadgen_git_log_message="4c52c8e3b1 Increment version"),
        "an older name": both(loadgen_version="6.0.14 @ made up"),
        "no hashes": both(loadgen_file_sha1={}),
        "hashes that are none": both(loadgen_file_sha1={"/results.cc": "x" * 40}),
    },
    "samples_drawn": {"the same sample in each query": asked_for("performance_issue_same", True)},
    "settings_took": {"asked for one minute": both(requested_min_duration_ms=60_000)},
}


@pytest.mark.parametrize(
    ("rules", "forge"),
    [
        pytest.param(rules, forge, id=name)
        for rules, forgeries in FORGED.items()
        for name, forge in forgeries.items()
    ],
)
def test_a_forgery_is_seen_by_its_rules_alone(rules: str, forge: Forgery) -> None:
    assert broken_by(forge) == set(rules.split())


SINGLE = LLAMA3_1_8B_EDGE.scenario("SingleStream")
OF_TOO_FEW = {
    "result_query_count": 63,
    "result_min_queries_met": False,
    "result_min_duration_met": False,
    "result_validity": "INVALID",
    "early_stopping_met": False,
    "early_stopping_tpot_result": TOO_FEW,
    # LoadGen looks at TTFT only where TPOT passed.
    "early_stopping_ttft_result": "",
}


@pytest.mark.parametrize(
    ("rule", "forge"),
    [
        ("validity_agrees", both(early_stopping_latency_ss=1)),
        ("validity_agrees", both(early_stopping_ttft_result=" * Run successful.")),
        ("queries_issued", more_queries),
        ("query_rate", times(1.01, "result_qps_without_loadgen_overhead")),
    ],
)
def test_a_forgery_of_single_stream_is_seen(rule: str, forge: Forgery) -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, SINGLE, "performance")
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
    run = MadeRun(LLAMA3_1_8B_EDGE, SINGLE, "performance")
    run.entries |= OF_TOO_FEW | changes
    assert verdict_on(run.facts(), "validity_agrees").status == status


TOKENS = 7_225_344.0
"""294 for each of 24,576 answers."""


@pytest.mark.parametrize(
    "wrong",
    [
        {"rougeL": 78.1},
        {"rouge2": 78.1},
        {"rougeLsum": 79.9},
        {"gen_len": 9e6, "gen_tok_len": 2_457_600.0},
        {"gen_len": 24_576.0},
        {"gen_len": 2e8},
        {"gen_tok_len": math.nan},
    ],
    ids=str,
)
def test_scores_that_no_answers_have_are_seen(wrong: dict[str, float]) -> None:
    scenario = LLAMA2_70B_99.scenario("Server")
    run = MadeRun(LLAMA2_70B_99, scenario, "accuracy", ROUNDS["v6.0"], submitted=True)
    run.scores |= {"tokens_per_sample": 294.0, "gen_num": 24_576.0}
    run.scores |= {"gen_len": 4 * TOKENS, "gen_tok_len": TOKENS}
    assert not_passed(judge(run.facts())) == {}
    run.scores |= wrong
    assert set(not_passed(judge(run.facts()))) == {"accuracy_score_figures"}


@pytest.mark.parametrize(
    ("scenario", "at", "new"),
    [
        ("Server", slice(9, 9), "First token check pass: False"),
        ("Offline", slice(9, 9), "First token check pass: True"),
        ("Server", slice(0, 1), "First token check pass: Skipped"),
        ("Server", slice(3, 4), "TEST06 verification failed"),
        ("Server", slice(9, 9), "TEST FAIL"),
        ("Server", slice(0, 0), "TEST09: Verify Output Token Length"),
    ],
)
def test_an_audits_verification_says_nothing_else(scenario: str, at: slice, new: str) -> None:
    run = made(scenario, "test06")
    run.verify[at] = [new]
    assert set(not_passed(judge(run.facts()))) == {"test06_verified"}
