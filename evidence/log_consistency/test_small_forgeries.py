"""Small forgeries of a submission's logs: which rules see each, and no other does.

Those that no break of a single rule shows are in meta_tests/features/log_consistency.
"""

from __future__ import annotations

import math

import pytest

from meta_tests.made_runs import MadeRun, line
from meta_tests.tampering.rule_breaks import (
    COMPLETED,
    NO_ERRORS,
    NO_WARNINGS,
    Forgery,
    asked_for,
    both,
    made,
    more_lines,
    not_passed,
    place_of,
    times,
    words,
)
from mlperf_suite.features.log_consistency.log_figures import TPOT, TTFT
from mlperf_suite.rules import judge

SUMMARIES: dict[str, Forgery] = {
    "advice": words("^TTFT Early", "Recommendations:\n * Reduce target QPS.\nTTFT Early"),
    "errors": words(NO_ERRORS, "2 ERRORS encountered. See detailed log."),
    "a warning in the detail log": more_lines(line("warning_generic_message", "x", warning=True)),
    "no percentiles": words(r"^[\d.]+(th)? percentile latency.*\n", ""),
    "a sentence that says NO": words(r"^(Min queries satisfied) : Yes", r"\1 : NO"),
    "a figure that is not a number": words(COMPLETED, r"\1 nan"),
    "early stopping unsuccessful": words(r"(TTFT.*:\n) \* Run success", r"\1 * Run unsuccess"),
    "no word on errors": words(NO_ERRORS, ""),
    "warnings": words(NO_WARNINGS, "3 warnings encountered. See detailed log."),
    "a figure of its own": words("^(Completed tokens.*)", r"\1\nSustained tokens per second: 9"),
    "a rate a cent off": words(COMPLETED, r"\1 1.0"),
    "another integer": words(r"^(max_async_queries) : .*$", r"\1 : 17"),
}


@pytest.mark.parametrize("count", [1, 2])
def test_warnings_that_both_files_have_pass(count: int) -> None:
    run = made()
    more_lines(*[line("warning_generic_message", "x", warning=True)] * count)(run)
    number = "1 warning" if count == 1 else f"{count} warnings"
    words(NO_WARNINGS, f"{number} encountered. See detailed log.")(run)
    assert not_passed(judge(run.facts())) == {}


def broken_by(forge: Forgery) -> set[str]:
    run = made()
    forge(run)
    return set(not_passed(judge(run.facts())))


def two_process_log(run: MadeRun) -> None:
    run.broken_lines.append(line("generic_message", "x").replace('"pid": 1', '"pid": 2'))


def a_day_to_come(run: MadeRun) -> None:
    keys = ("power_begin", "power_end", "test_datetime")
    both(**dict.fromkeys(keys, lambda text: text.replace("2026", "2926")))(run)


TOKENS_PER_S = (
    "result_completed_tokens_per_second",
    "result_token_throughput",
    "result_token_throughput_with_loadgen_overhead",
)
P50, P90, P99, P999 = (TTFT.percentile.format(p) for p in ("50.00", "90.00", "99.00", "99.90"))
FORGED: dict[str, dict[str, Forgery]] = {
    "summary_agrees": SUMMARIES,
    "validity_agrees": {
        "tokens of early stopping": both(early_stopping_tpot_result=" * Run unsuccessful."),
        "the minimum of queries not met": both(result_min_queries_met=False),
        "no query over its latency": both(result_overlatency_query_count=0),
        "words that are not LoadGen's": both(early_stopping_ttft_result=" * Not needed."),
        "the minimum duration not met": both(result_min_duration_met=False),
        "the limits not met": both(result_perf_constraints_met=False),
        "twelve queries over their latency": both(result_overlatency_query_count=12),
    },
    "clock_dates": {
        "a day to come": a_day_to_come,
        "built before its sources": both(loadgen_build_date_utc="2026-01-01T10:00:00.000000"),
        "run before it was built": both(loadgen_build_date_utc="2026-03-05T10:00:00.000000"),
    },
    "percentile_order": {
        "TTFT of p99 as of p99.9": place_of(P999, P99),
        "TTFT of p50 as of p90": place_of(P90, P50),
        "the longest TTFT is p99.9's": place_of(TTFT.places[-1], P999),
    },
    "percentile_order token_times": {"TTFT a thousandth": times(0.001, *TTFT.places, TTFT.mean)},
    "token_times tokens_as_in_accuracy": {"4% more tokens": times(1.04, *TOKENS_PER_S)},
    "mean_in_percentiles token_times": {"a mean below the least": times(0.9, TTFT.mean)},
    "result_valid validity_agrees log_lines": {"INVALID": both(result_validity="INVALID")},
    "time_stamps": {"two processes": two_process_log},
    "time_span query_rate queries_issued": {
        "a window of no length": both(power_end="03-04-2026 09:59:00.000")
    },
    "percentile_order mean_in_percentiles": {"a TTFT of 0": both(**{TTFT.places[0]: 0})},
    "token_times": {"4% less time for each token": times(0.96, *TPOT.places, TPOT.mean)},
    "samples_drawn": {"the same sample in each query": asked_for("performance_issue_same", True)},
    "settings_took": {"asked for one minute": both(requested_min_duration_ms=60_000)},
    "log_lines": {
        "a count that is not a number": both(logger_tls_total_log_cas_fail_count=math.nan),
        "a duration without end": both(get_sut_name_duration_ns=math.inf),
        "an error that is marked as none": more_lines(line("error_runtime", "x")),
        "a negative count": both(qsl_reported_performance_count=-1),
    },
    "ttft_limit validity_agrees percentile_order mean_in_percentiles": {
        "longest TTFTs": times(1.2, *TTFT.places[-3:])
    },
    "loadgen_files": {
        "a release that never was": both(loadgen_version="6.0.99 @ made up"),
        "the log of another commit": both(loadgen_git_log_message="4c52c8e3b1 Increment version"),
        "hashes that are none": both(loadgen_file_sha1={"/results.cc": "x" * 40}),
        "an older name": both(loadgen_version="6.0.14 @ made up"),
        "no hashes": both(loadgen_file_sha1={}),
    },
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
