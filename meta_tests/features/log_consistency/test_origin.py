"""Rules of a log's origin that made-up breaks of a single rule do not show."""

from __future__ import annotations

import pytest

from meta_tests.made_runs import MadeRun
from meta_tests.tampering.rule_breaks import verdict_on
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99_9
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B_EDGE
from mlperf_suite.rules import judge


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
