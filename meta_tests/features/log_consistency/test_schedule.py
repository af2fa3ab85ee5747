"""What the seeds determine, computed again: the same as real LoadGen runs have it."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from meta_tests.loadgen.made_plans import a_plan, run, shipped_round, stand_in
from meta_tests.made_runs import MadeRun
from meta_tests.tampering.rule_breaks import AGREEMENT, verdict_on
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.features.log_consistency.releases import RELEASES, fingerprint
from mlperf_suite.features.log_consistency.schedule import (
    MAX_QUERIES,
    ScheduleSettings,
    TooLongError,
    loaded_sets,
    logging_draws,
    mt19937_words,
    schedule,
    shuffled,
)
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import AnswerTokens, RunFacts, SessionFacts

RUNS = [
    (scenario, mode)
    for scenario in ("Offline", "Server", "SingleStream")
    for mode in ("accuracy", "performance", "test06")
    # The edge category has no TEST06.
    if (scenario, mode) != ("SingleStream", "test06")
]


def test_what_is_drawn_from_a_seed() -> None:
    # [rand.predef]: the 10,000th of a std::mt19937 that nobody seeded.
    assert next(itertools.islice(mt19937_words(5489), 9_999, None)) == 4_123_659_995
    for count in (1, 2, 3, 84, 70_000):
        assert sorted(shuffled(7, count)) == list(range(count))
        assert sorted(shuffled(7, count, old=True)) == list(range(count))
    # Libraries shuffle in two ways; of few numbers both seldom differ.
    assert shuffled(7, 24_576) != shuffled(7, 24_576, old=True)
    # An accuracy run loads all samples in sets and a performance run one.
    sets = loaded_sets(3, 10, 4, accuracy=True)
    assert [len(part) for part in sets] == [4, 4, 2]
    assert sorted(itertools.chain(*sets)) == list(range(10))
    assert loaded_sets(3, 10, 4, accuracy=False) == sets[:1]
    # Answers are logged with the probability that is asked for.
    draws = logging_draws(720381539243781796, 100_000)
    assert draws.min() >= 0 and draws.max() < 1
    assert abs((draws <= 0.001).sum() - 100) < 50


@pytest.mark.parametrize(("scenario", "mode"), RUNS)
def test_a_real_run_agrees_with_itself(tmp_path: Path, scenario: str, mode: str) -> None:
    """Every rule of agreement passes a real LoadGen's log."""
    benchmark = LLAMA3_1_8B_EDGE if scenario == "SingleStream" else LLAMA3_1_8B
    engine = stand_in(rest_s=0.0001)
    # At this rate, the duration asks for more queries than the least number.
    shortened = Shortened(min_duration_ms=250, min_query_count=21)
    load_run = run(a_plan(scenario, mode, shortened), engine, tmp_path)
    engine.close()
    facts = RunFacts(
        benchmark,
        benchmark.scenario(scenario),
        mode,
        shipped_round(),
        load_run.logs,
        smoke=True,
        session=SessionFacts(),
        accuracy_tokens=AnswerTokens(load_run.tokens / load_run.samples, load_run.samples),
    )
    verdicts = [v for v in judge(facts) if v.rule in AGREEMENT]
    assert len(verdicts) > 1
    assert [v.line for v in verdicts if not v.passed] == []


def test_the_installed_loadgen_has_the_sources_of_its_version(tmp_path: Path) -> None:
    detail = run(a_plan(), stand_in(), tmp_path).logs.detail
    version = detail["loadgen_version"].partition(" @ ")[0]
    assert fingerprint(detail["loadgen_file_sha1"]) in RELEASES[version]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"qps": 0.0}, ValueError),
        ({"loaded": 0}, ValueError),
        ({"least": -1}, ValueError),
        ({"qps": 1e-300, "scenario": "Offline"}, ValueError),
        ({"qps": 1e10, "scenario": "SingleStream"}, ValueError),
        ({"qps": MAX_QUERIES / 60.0}, TooLongError),
    ],
)
def test_what_cannot_be_computed_is_told(change: dict[str, Any], error: type[Exception]) -> None:
    request = {"scenario": "Server", "seed": 1, "qps": 10.0, "duration_ms": 600_000, "least": 100}
    request |= {"samples": 1, "loaded": 84, "equal": True, "accuracy": False}
    with pytest.raises(error):
        schedule(ScheduleSettings(**(request | change)))  # type: ignore[arg-type]


# Rules of what the seeds determine, where a rounded rate leaves several schedules


def status_of(rule: str, **entries: object) -> str:
    """Of a rule on a Server run of 221.533 queries/s with other entries."""
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance", round=ROUNDS["v6.1"])
    run.entries |= {"effective_target_qps": 221.533, **entries}
    return verdict_on(run.facts(), rule).status


SETS = {10: 133_680, 11: 147_048}
"""Queries of so many whole data sets, between which a rate that prints as 221.533 decides."""


@pytest.mark.parametrize(
    ("rate", "queries", "duration_ns", "status"),
    [
        # As LoadGen makes them of 221.53324600969475 queries/s, the least that gives 11 sets.
        (221.533, SETS[11], 661_010_667_154, "passed"),
        # Of 221.5335, of 221.533 and of 221.5325.
        (221.533, SETS[11], 661_009_908_924, "passed"),
        (221.533, SETS[10], 600_006_220_869, "passed"),
        (221.533, SETS[10], 600_007_575_195, "passed"),
        # At a rate that gives the other number, at one that prints as another, and at none.
        (221.533, SETS[11], 661_010_668_000, "failed"),
        (221.533, SETS[10], 600_007_576_000, "failed"),
        (221.533, SETS[10], 600_005_000_000, "failed"),
        (221.533, SETS[11] - 1, 661_010_000_000, "failed"),
        # With fewer digits, of 221.5303 and of 221.53.
        (221.53, SETS[10], 600_013_533_665, "passed"),
        (221.53, SETS[10], 600_014_346_189, "passed"),
        (221.53, SETS[10], 600_020_000_000, "failed"),
    ],
)
def test_a_rate_of_more_digits(rate: float, queries: int, duration_ns: int, status: str) -> None:
    entries = {"generated_query_count": queries, "generated_query_duration": duration_ns}
    assert status_of("generated_queries", effective_target_qps=rate, **entries) == status
    entries["generated_samples_per_query"] = 7
    assert status_of("generated_queries", effective_target_qps=rate, **entries) == "failed"


@pytest.mark.parametrize(
    ("queries", "rate", "status"),
    [
        (SETS[11], 222.458, "passed"),
        (SETS[10], 222.798, "passed"),
        (SETS[11], 222.798, "failed"),
        (SETS[10], 222.458, "failed"),
    ],
)
def test_the_scheduled_rate_is_of_the_queries(queries: int, rate: float, status: str) -> None:
    entries = {"generated_query_count": queries, "result_scheduled_samples_per_sec": rate}
    assert status_of("scheduled_rate", **entries) == status


@pytest.mark.parametrize(
    ("rate", "scheduled", "status"),
    [
        # Of 18,000,000 queries in 900 s, 25,455 are six standard deviations.
        (20_000.0, 20_000.0, "not judged"),
        (20_000.0 + 25_455 / 900, None, "not judged"),
        (20_000.0 + 25_457 / 900, None, "failed"),
        (1e9, 20_000.0, "failed"),
        (20_000.0, 1e9, "failed"),
    ],
)
@pytest.mark.parametrize("rule", ["generated_queries", "scheduled_rate"])
def test_more_queries_than_can_be_drawn_again_fit_their_rate(
    rule: str, rate: float, scheduled: float | None, status: str
) -> None:
    entries: dict[str, object] = {"generated_query_count": 18_000_000}
    entries |= {"generated_query_duration": 900 * 10**9}
    entries |= {"result_scheduled_samples_per_sec": scheduled}
    entries |= {"effective_target_qps": rate}
    assert status_of(rule, **entries) == status
    assert status_of(rule, **entries | {"effective_min_duration_ms": 900_001}) == "failed"


@pytest.mark.parametrize(
    ("period_ns", "status"), [(1_234_503, "passed"), (1_234_500, "passed"), (1_234_560, "failed")]
)
def test_an_expected_latency_of_fewer_digits_is_rounded(period_ns: int, status: str) -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    queries = run.benchmark.samples * -(-1_200_000_000_000 // period_ns // run.benchmark.samples)
    run.entries |= {
        "requested_single_stream_expected_latency_ns": 1.2345e6,
        "generated_query_count": queries,
        "generated_query_duration": queries * period_ns,
    }
    assert verdict_on(run.facts(), "generated_queries").status == status
