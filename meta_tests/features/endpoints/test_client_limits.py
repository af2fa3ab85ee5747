"""Latency limits of the official client's runs that are too short for an estimate at p99."""

from dataclasses import replace

import pytest

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
    p90_ms: float | None, *, smoke: bool, estimate_ms: float | None = None, duration_s: float = 10.0
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
        summary=ResultSummary(
            20, 20, 0, "complete", True, duration_ns=round(duration_s * 1e9), ttft=ttft
        ),
        accuracy=None,
        problems=(),
        smoke=smoke,
    )


@pytest.mark.parametrize(
    ("rule", "run", "words"),
    [
        # The limit is 2,000 ms; smoke keeps to ten times that, as under LoadGen.
        ("ttft_limit", facts(1_000, smoke=True), "shortened"),
        ("ttft_limit", facts(19_999, smoke=True), "shortened"),
        ("ttft_limit", facts(20_001, smoke=True), "failed"),
        ("ttft_limit", facts(None, smoke=True), "failed"),
        ("ttft_limit", facts(1_000, smoke=False), "failed"),
        ("ttft_limit", facts(1_000, smoke=True, estimate_ms=1_999), "passed"),
        ("ttft_limit", facts(1_000, smoke=True, estimate_ms=2_001), "failed"),
        ("ttft_limit", replace(facts(1_000, smoke=True), summary=None), "failed"),
        ("lasted", facts(None, smoke=False, duration_s=599.97), "failed: found 599.9 s"),
        ("lasted", facts(None, smoke=False, duration_s=600.0), "passed: found 600.0 s"),
    ],
)
def test_a_smoke_run_keeps_to_ten_times_the_limit_and_a_moment_too_short_is_too_short(
    rule: str, run: OfficialClientFacts, words: str
) -> None:
    (verdict,) = [of.judge(run) for of in rules_of_a_run() if of.name == f"client_{rule}"]
    assert verdict.line.startswith(f"client_{rule}: {words}")
