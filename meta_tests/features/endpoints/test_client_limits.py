"""Latency limits of the official client's runs that are too short for an estimate at p99."""

from dataclasses import replace

import pytest
from msgspec import structs

from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    official_client_benchmark,
)
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    Distribution,
    OfficialClientConfig,
    ResultSummary,
)
from mlperf_suite.features.endpoints.rules.official_client_rules import (
    OfficialClientFacts,
    rules_of_a_run,
)


def facts(
    p90_ms: float | None, *, smoke: bool, estimate_ms: float | None = None
) -> OfficialClientFacts:
    benchmark = official_client_benchmark("llama3.1-8b", "Server")
    assert benchmark is not None
    ttft = Distribution(
        avg=1e6,
        percentiles={} if p90_ms is None else {"90.0": p90_ms * 1e6},
        early_stopping_percentiles={"99.0": None if estimate_ms is None else estimate_ms * 1e6},
    )
    return OfficialClientFacts(
        name="llama3.1-8b",
        scenario="Server",
        round=ROUNDS["v6.1"],
        benchmark=benchmark,
        config=OfficialClientConfig(),
        summary=ResultSummary(20, 20, 0, "complete", True, duration_ns=10**10, ttft=ttft),
        accuracy=None,
        problems=(),
        smoke=smoke,
    )


@pytest.mark.parametrize(
    ("run", "status"),
    [
        # The limit is 2,000 ms; smoke keeps to ten times that, as under LoadGen.
        (facts(1_000, smoke=True), "shortened"),
        (facts(19_999, smoke=True), "shortened"),
        (facts(20_001, smoke=True), "failed"),
        (facts(None, smoke=True), "failed"),
        (facts(1_000, smoke=False), "failed"),
        (facts(1_000, smoke=True, estimate_ms=1_999), "passed"),
        (facts(1_000, smoke=True, estimate_ms=2_001), "failed"),
    ],
)
def test_a_smoke_run_keeps_to_ten_times_the_limit(run: OfficialClientFacts, status: str) -> None:
    rule = next(rule for rule in rules_of_a_run() if rule.name == "client_ttft_limit")
    verdict = rule.judge(run)
    assert verdict.status == status, verdict


@pytest.mark.parametrize(
    ("duration_s", "words", "status"), [(599.97, "599.9 s", "failed"), (600.0, "600.0 s", "passed")]
)
def test_a_moment_too_short_is_not_long_enough(duration_s: float, words: str, status: str) -> None:
    run = facts(1_000, smoke=False)
    assert run.summary is not None
    summary = structs.replace(run.summary, duration_ns=round(duration_s * 1e9))
    rule = next(rule for rule in rules_of_a_run() if rule.name == "client_lasted")
    verdict = rule.judge(replace(run, summary=summary))
    assert (verdict.found, verdict.status) == (words, status)
