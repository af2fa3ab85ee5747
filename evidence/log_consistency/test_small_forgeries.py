"""More small forgeries of made-up logs than test_forged_logs.py of meta_tests/ has."""

from __future__ import annotations

import math

import pytest

from meta_tests.made_runs import line
from meta_tests.tampering.rule_breaks import (
    COMPLETED,
    NO_ERRORS,
    NO_WARNINGS,
    Forgery,
    both,
    broken_by,
    made,
    more_lines,
    not_passed,
    place_of,
    times,
    words,
)
from mlperf_suite.features.log_consistency.log_figures import TTFT
from mlperf_suite.rules import judge

SUMMARIES: dict[str, Forgery] = {
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


TOKENS_PER_S = (
    "result_completed_tokens_per_second",
    "result_token_throughput",
    "result_token_throughput_with_loadgen_overhead",
)
P50, P90, P999 = (TTFT.percentile.format(p) for p in ("50.00", "90.00", "99.90"))
FORGED: dict[str, dict[str, Forgery]] = {
    "summary_agrees": SUMMARIES,
    "validity_agrees": {
        "words that are not LoadGen's": both(early_stopping_ttft_result=" * Not needed."),
        "the minimum duration not met": both(result_min_duration_met=False),
        "the limits not met": both(result_perf_constraints_met=False),
        "twelve queries over their latency": both(result_overlatency_query_count=12),
    },
    "clock_dates": {
        "run before it was built": both(loadgen_build_date_utc="2026-03-05T10:00:00.000000"),
    },
    "percentile_order": {
        "TTFT of p50 as of p90": place_of(P90, P50),
        "the longest TTFT is p99.9's": place_of(TTFT.places[-1], P999),
    },
    "percentile_order token_times": {"TTFT a thousandth": times(0.001, *TTFT.places, TTFT.mean)},
    "token_times tokens_as_in_accuracy": {"4% more tokens": times(1.04, *TOKENS_PER_S)},
    "mean_in_percentiles token_times": {"a mean below the least": times(0.9, TTFT.mean)},
    "log_lines": {
        "a count that is not a number": both(logger_tls_total_log_cas_fail_count=math.nan),
        "a duration without end": both(get_sut_name_duration_ns=math.inf),
    },
    "loadgen_files": {
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
