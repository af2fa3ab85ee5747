"""What the rules on a log's consistency find, their boundaries and the bounds of figures.

evidence/log_consistency/ has small forgeries of every kind, evidence/forgeries/ many more.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.judging.unreadable_files import within
from meta_tests.made_runs import MadeRun, as_printed, every_scenario, line, write_run
from meta_tests.tampering.rule_breaks import (
    Forgery,
    asked_for,
    both,
    made,
    more_lines,
    not_passed,
    times,
    verdict_on,
    words,
)
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark, Scenario
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99_9
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.log_consistency.agreement import FigureRange
from mlperf_suite.features.log_consistency.log_figures import (
    LATENCY,
    TPOT,
    TTFT,
    LatencyKeys,
    _unwrapped,
    mean_bounds,
    places_at,
)
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import AnswerTokens

P99 = TTFT.percentile.format("99.00")
TOO_FEW = " * Only processed 63 queries.  * Need to process at least 64 queries for early stopping."
MORE_QUERIES = (
    " * Run unsuccessful.  * Processed {} queries.  * Would need to run at least {} more queries,"
    "  with the run being successful if every additional  query were under latency."
)


QUERIES = ("effective_min_query_count", "generated_query_count", "result_query_count")
ONE_QUERY = both(
    **dict.fromkeys(QUERIES, 1),
    effective_min_duration_ms=0,
    effective_sample_concatenate_permutation=False,
)
BILLION = 10**9
OTHER_PROCESS = line("a_line", 1).replace('"pid": ', '"pid": 9')
SAID: dict[str, Forgery] = {
    "accuracy_issue_order 1,000,000,000 samples": both(effective_min_query_count=BILLION),
    # Several sets of samples, whose order cannot be told.
    "accuracy_issue_order: passed": both(effective_performance_sample_count=5000),
    "loaded_samples 1,000,000,000": both(effective_performance_sample_count=BILLION),
    "loaded_samples 0 sets of samples, not 1": lambda run: run.entries.pop("loaded_qsl_set"),
    "loaded_samples sample 5526 in place 0": both(loaded_qsl_set=lambda samples: samples[::-1]),
    "scheduled_rate: not judged: found 1 query": ONE_QUERY,
    "query_rate: not judged: found 1 query": ONE_QUERY,
    "issued_token_rate: not judged: found 1 query": ONE_QUERY,
    "token_rate: passed: found 3 tokens / 1 answers": ONE_QUERY,
    "query_rate result_completed_samples_per_sec 0": both(result_completed_samples_per_sec=0),
    "queries_issued 26,736 queries, required at most 1,000": asked_for("max_query_count", 1000),
    "queries_issued 26,736 queries, required at most 300": asked_for("max_duration_ms", 300_000),
    "queries_issued 26,736 queries, required at most 10": asked_for("max_async_queries", 10),
    "queries_issued: passed": lambda run: both(power_end=run.entries["power_begin"])(run),
    "percentile_order p99: latency": times(1.2, *TTFT.places[-3:]),
    "percentile_order minimum: TTFT 1 ns": both(**{TTFT.places[0]: 1}),
    "validity_agrees 26,736 queries over 10,000": both(effective_target_latency_ns=10**13),
    "validity_agrees 26,736 queries over 0 ns, 1 to 1": both(
        result_query_count=1, result_min_queries_met=False
    ),
    "validity_agrees 1,000,000,000 queries, where no": both(
        result_query_count=BILLION, result_overlatency_query_count=BILLION
    ),
    "validity_agrees effective_target_lat": both(effective_target_latency_percentile=0.3),
    "settings_took a setting is of": both(requested_performance_sample_count_override=1.5),
    "settings_took effective_sample_": both(requested_sample_concatenate_permutation=1),
    "loadgen_files no hashes of": both(loadgen_file_sha1=[]),
    "loadgen_files LoadGen 6.0.17 @ made up, its git": both(loadgen_git_log_message="x"),
    "log_lines error_runtime that is marked as none": more_lines(line("error_runtime", "x")),
    "log_lines qsl_reported_performance_count -1": both(qsl_reported_performance_count=-1),
    "log_lines loadgen_version 6": both(loadgen_version=6),
    "samples_drawn effective_accu": both(effective_accuracy_log_probability=0.5),
    "summary_agrees 'None' in the summary": words("^No warnings.*", "None"),
    "summary_agrees no line 'Min queries sat": words("^Min queries satisfied.*\n", ""),
    "summary_agrees target_qps: 1e+300": both(effective_target_qps=1e300),
    "summary_agrees: passed": both(result_completed_tokens_per_second=0.0),
    "time_stamps line 82 has no": lambda run: run.stamps.update(result_validity=None),
    "time_stamps processes 1 and 91": more_lines(OTHER_PROCESS),
    "time_span power_end 825,933,600.5": both(power_end="01-01-2000 00:00:00.000"),
    "clock_dates power_begin 01-01-2999": both(power_begin="01-01-2999 00:00:00.000"),
    "clock_dates loadgen_git_commit_date 2999": both(loadgen_git_commit_date="2999-01-01"),
}
"""The beginning of a rule's verdict on a forgery, and what it failed for."""


@pytest.mark.parametrize("said", SAID)
def test_a_rule_says_what_it_found(said: str) -> None:
    run = made(mode="accuracy" if said.startswith("accuracy_") else "performance")
    SAID[said](run)
    line = verdict_on(run.facts(), said.partition(" ")[0].strip(":")).line
    assert line.replace(": failed: found", "").startswith(said)


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


def more_queries(run: MadeRun) -> None:
    run.entries["result_query_count"] = run.entries["generated_query_count"] + 1


@pytest.mark.parametrize(
    ("rule", "forge"),
    [
        ("validity_agrees", both(early_stopping_latency_ss=1)),
        ("validity_agrees", both(early_stopping_tpot_result=lambda t: t.replace(": 90", ": 1"))),
        ("settings_took", asked_for("sample_concatenate_permutation", False)),
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


@pytest.mark.parametrize(("queries", "status"), [(459, "passed"), (458, "failed")])
def test_early_stopping_succeeds_from_its_number_of_queries_on(queries: int, status: str) -> None:
    run = made()
    run.entries |= {
        "result_query_count": queries,
        "result_overlatency_query_count": queries,
        "result_min_duration_met": False,
        "result_validity": "INVALID",
    }
    assert verdict_on(run.facts(), "validity_agrees").status == status


@pytest.mark.parametrize(("slack_ns", "needed"), [(0, 30_000), (-1, 40_000)])
def test_loadgens_word_on_the_limits_is_that_of_the_percentiles(slack_ns: int, needed: int) -> None:
    """Of a run whose TTFT at p99 is the limit, or 1 ns over it; early stopping ends both."""
    run = made()
    queries, limit_ns = run.entries["result_query_count"], run.entries[P99] + slack_ns
    run.entries |= {
        "requested_server_ttft_latency": limit_ns,
        "result_validity": "INVALID",
        "early_stopping_met": False,
        "early_stopping_ttft_result": MORE_QUERIES.format(queries, needed - queries),
    }
    for is_met in (True, False):
        run.entries["result_perf_constraints_met"] = is_met
        status = "passed" if is_met is (slack_ns == 0) else "failed"
        assert verdict_on(run.facts(), "validity_agrees").status == status


@pytest.mark.parametrize(
    ("answers", "longer", "status"),
    [
        # Of many answers 3% more or 5% less pass, of few a share of 2 by the root of their number.
        *((13_368, longer, "passed") for longer in (0.029, -0.049)),
        *((13_368, longer, "failed") for longer in (0.031, -0.051)),
        *((400, longer, "passed") for longer in (0.099, -0.099)),
        *((400, longer, "failed") for longer in (0.101, -0.101)),
        (0, 0.0, "not judged"),
    ],
)
def test_answers_are_as_long_as_in_accuracy(answers: int, longer: float, status: str) -> None:
    run = made("Offline")
    tokens = run.entries["result_tokens_per_second"] / run.entries["result_samples_per_second"]
    run.accuracy_tokens = AnswerTokens(tokens / (1 + longer), answers)
    assert verdict_on(run.facts(), "tokens_as_in_accuracy").status == status


def test_in_offline_answers_may_come_all_at_once_but_not_in_no_time() -> None:
    run = made("Offline")
    most = run.entries[LATENCY.places[-1]]
    both(**dict.fromkeys((*LATENCY.places, LATENCY.mean), most))(run)
    assert not_passed(judge(run.facts())) == {}
    run.entries[LATENCY.places[0]] = 0
    assert verdict_on(run.facts(), "percentile_order").status == "failed"


# Rules of a log's origin that made-up breaks of a single rule do not show


@pytest.mark.parametrize("version", ["9.9.9 @ 0123456789", "4.1.2 @ 0123456789", ""])
@pytest.mark.parametrize(
    ("mode", "rules"),
    [
        ("performance", {"loadgen_files", "log_lines"}),
        ("accuracy", {"accuracy_loadgen_files", "accuracy_log_lines"}),
        ("test06", {"test06_log_agrees"}),
    ],
)
def test_an_unknown_version_fails_in_logs(mode: Mode, rules: set[str], version: str) -> None:
    for submitted, status in ((True, "failed"), (False, "not judged")):
        run = MadeRun(LLAMA2_70B_99_9, LLAMA2_70B_99_9.scenarios[1], mode, submitted=submitted)
        run.entries["loadgen_version"] = version
        run.entries["loadgen_git_log_message"] = version.partition(" @ ")[2]
        broken = {v.rule for v in judge(run.facts()) if v.status == status}
        # An audit's one rule on its log passes where a part of it is not judged.
        assert broken >= (rules if submitted or mode != "test06" else set())


@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_a_release_built_outside_of_its_repository_is_known_by_its_files(mode: Mode) -> None:
    # As pip builds it on Linux for ARM, for which there is no wheel.
    run = MadeRun(LLAMA2_70B_99_9, LLAMA2_70B_99_9.scenarios[1], mode, submitted=True)
    run.entries["loadgen_version"] = "6.0.17 @ NA"
    git = ("commit_date", "log_message", "status_message")
    run.entries |= {f"loadgen_git_{name}": "NA" for name in git}
    assert {v.rule for v in judge(run.facts()) if v.status == "failed"} == set()
    run.entries["loadgen_file_sha1"] = run.entries["loadgen_file_sha1"] | {"/results.cc": "0" * 40}
    (verdict,) = (v for v in judge(run.facts()) if v.status == "failed")
    assert verdict.rule.endswith("loadgen_files")


@pytest.mark.parametrize(
    ("expected_ns", "queries", "status"),
    [
        # 26.666666667 ms, of which six digits are logged: 45,000 queries expected, nine data sets.
        (2.66667e7, 50_000, "passed"),
        (2.66667e7, 45_000, "passed"),
        (2.66667e7, 55_000, "failed"),
        (2.66767e7, 50_000, "failed"),
    ],
)
def test_an_expected_latency_is_rounded(expected_ns: float, queries: int, status: str) -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    run.entries |= {
        "requested_single_stream_expected_latency_ns": expected_ns,
        "effective_min_query_count": queries,
        "effective_min_sample_count": queries,
    }
    assert verdict_on(run.facts(), "settings_took").status == status


# Bounds of figures: those of any answers lie within them, and rounding is allowed for


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


SERVED = [(row, scenario) for row, scenario in every_scenario() if scenario.name == "Interactive"]


@pytest.mark.parametrize(("row", "scenario"), SERVED, ids=[row.id for row, _ in SERVED])
def test_answers_are_as_long_as_in_accuracy_of_the_same_samples(
    row: Benchmark, scenario: Scenario
) -> None:
    """An accuracy run of other samples asks for other problems, whose answers may be longer."""
    run = MadeRun(row, scenario, "performance")
    assert run.accuracy_tokens is not None
    run.accuracy_tokens = replace(run.accuracy_tokens, mean=2 * run.accuracy_tokens.mean)
    failures = {"tokens_as_in_accuracy"} if row.accuracy_samples is None else set()
    assert set(not_passed(judge(run.facts()))) == failures


def many(count: int) -> dict[str, Any]:
    return {"result_query_count": count, "result_overlatency_query_count": count}


SLOW = {"result_time_to_output_token_max": 10**12}
NOT_STOPPED = (
    f" * Run unsuccessful.  * Processed {'9' * 5000} queries.  * Would need to run at least 9 more "
    "queries,  with the run being successful if every additional  query were under latency."
)


@pytest.mark.parametrize(
    ("scenario", "entries"),
    [
        ("Server", many(10**18) | SLOW),
        ("SingleStream", {"result_query_count": 10**18}),
        ("Server", many(10**10) | SLOW | {"effective_target_latency_percentile": 1 - 1e-16}),
        ("Server", {"early_stopping_tpot_result": NOT_STOPPED}),
    ],
)
def test_figures_beyond_every_run_fail_at_once(scenario: Any, entries: Any) -> None:
    benchmark = LLAMA3_1_8B_EDGE if scenario == "SingleStream" else LLAMA3_1_8B
    run = MadeRun(benchmark, benchmark.scenario(scenario), "performance", submitted=True)
    run.entries |= entries
    with within(300):
        assert "validity_agrees" in not_passed(judge(run.facts()))


def test_an_estimate_longer_than_an_integer_fails() -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    text = run.entries["early_stopping_tpot_result"].replace(
        "estimate: ", f"estimate: {'9' * 5000}"
    )
    run.entries["early_stopping_tpot_result"] = text
    assert "validity_agrees" in not_passed(judge(run.facts()))


def test_a_log_that_contradicts_itself_claims_nothing_else(tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), "performance", ROUNDS["v6.1"])
    run.entries["result_validity"] = "INVALID"
    write_run(tmp_path / "run", run)
    (judged,) = judge_folder(tmp_path)
    assert judged.claim == "contradicts itself"
