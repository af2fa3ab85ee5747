"""Latencies and lengths at their limits, the queries that early stopping needs, and what a client
may take of a run."""

from dataclasses import replace
from typing import Any

import pytest

from meta_tests.made_runs import P99, MadeRun, every_scenario, remote_run
from meta_tests.tampering.rule_breaks import not_passed, verdict_on, without_agreement
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.loadgen.load_plan import LIMIT_KEYS
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import TEXT_ALONE, RunFacts, gives_text_alone
from mlperf_suite.rules.stopping_criterion import discarded_queries, queries_needed
from mlperf_suite.rules.verdict import Verdict


@pytest.mark.parametrize(
    "where", [w for w in every_scenario() if w[1].limits], ids=lambda w: f"{w[0].id}-{w[1].name}"
)
def test_a_latency_just_below_its_limit_passes(where: Any) -> None:
    limits = where[1].limits
    run = MadeRun(where[0], where[1], "performance")
    run.entries |= {P99[name]: int(limit_ms * 1e6) - 1 for name, limit_ms in limits.items()}
    assert without_agreement(judge(run.facts())) == {}
    for name in limits:
        run.entries[LIMIT_KEYS[name]] //= 2
    assert without_agreement(judge(run.facts())) == {}


@pytest.mark.parametrize(("queries", "failures"), [(1024, []), (1023, ["min_queries"])])
def test_without_early_stopping_it_takes_1024_queries(queries: Any, failures: Any) -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    run.entries = {k: v for k, v in run.entries.items() if not k.startswith("early_stopping")}
    run.entries["result_query_count"] = queries
    assert list(without_agreement(judge(run.facts()))) == failures


@pytest.mark.parametrize("met", [True, False])
def test_loadgens_words_on_early_stopping_are_told_if_it_was_not_met(met: bool) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    run.entries |= {"early_stopping_met": met, "early_stopping_ttft_result": "Run longer."}
    assert ("Run longer." in verdict_on(run.facts(), "early_stopping").why) is not met


JUST_ENOUGH = {
    "result_query_count": (64, ("Server", "Interactive", "SingleStream")),
    "effective_min_duration_ms": (600_000, ("Server", "Offline")),
    "effective_samples_per_query": (13_368, ("Offline",)),
    "effective_performance_sample_count": (13_368, ("Server", "Offline")),
}


@pytest.mark.parametrize("key", JUST_ENOUGH)
def test_just_enough_is_enough(key: Any) -> None:
    value, scenarios = JUST_ENOUGH[key]
    for where in every_scenario():
        if where[0].samples == 13_368 and where[1].name in scenarios:
            run = MadeRun(*where, "performance")
            run.entries[key] = value
            assert without_agreement(judge(run.facts())) == {}


def facts_of(scenario: str, remote: RemoteRun | None, mode: Mode = "performance") -> RunFacts:
    return MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario(scenario), mode, remote=remote).facts()


def of_session(facts: RunFacts, **changed: Any) -> RunFacts:
    return replace(facts, session=replace(facts.in_session, **changed))


def client_bound(scenario: str, remote: RemoteRun | None, *, smoke: bool = False) -> Verdict:
    return verdict_on(replace(facts_of(scenario, remote), smoke=smoke), "client_bound")


def test_a_client_passes_below_its_limits_and_where_there_is_none() -> None:
    assert client_bound("Server", None).passed
    for scenario in ("Offline", "Server"):
        assert not_passed(judge(facts_of(scenario, remote_run(0.899, 1.0, 1.0)))) == {}


def test_a_full_processor_fails_with_its_number_in_smoke_too() -> None:
    for scenario in ("Offline", "Server"):
        for smoke in (False, True):
            verdict = client_bound(scenario, remote_run(busy_share=0.973), smoke=smoke)
            assert verdict.status == "failed"
            assert verdict.found == "97.3% of a core, send 0.20 ms, receive 0.30 ms at p99"
            assert verdict.why == "a client process used 97.3% of a core"


def test_where_queries_come_one_by_one_a_delay_fails_and_in_offline_none_does() -> None:
    late = remote_run(out_ms=1.5, back_ms=None)
    verdict = client_bound("Server", late)
    why = "send 1.50 ms at p99; receive not measured at p99"
    assert (verdict.status, verdict.why) == ("failed", why)
    assert client_bound("Offline", late).passed
    assert client_bound("Server", late, smoke=True).status == "shortened"


def test_a_request_that_waited_in_the_client_makes_a_run_client_bound() -> None:
    why = "2 requests waited in the client"
    for scenario, full in (
        ("Server", None),
        ("Server", True),
        ("Server", False),
        ("Offline", False),
    ):
        verdict = client_bound(scenario, remote_run(waited=2, full=full))
        assert (verdict.status, verdict.why) == ("failed", why)
    assert client_bound("Offline", remote_run(waited=2, full=True)).passed
    verdict = client_bound("Offline", remote_run(waited=2))
    assert verdict.status == "not judged" and "do not report whether they had room" in verdict.why
    assert client_bound("Offline", remote_run(1.0, waited=2)).status == "failed"


# What a server did otherwise than asked


CUT = "3 answers cut by the server's own limit"


@pytest.mark.parametrize("smoke", [False, True])
@pytest.mark.parametrize(
    ("mode", "rule"), [("performance", "generation"), ("accuracy", "accuracy_generation")]
)
def test_a_server_that_did_otherwise_fails_smoke_too(mode: Any, rule: Any, smoke: Any) -> None:
    facts = replace(facts_of("Server", remote_run(departures=(CUT,)), mode), smoke=smoke)
    assert list(not_passed(judge(facts))) == [rule]
    cached_and_short = of_session(facts, deviations=("at most 16 new tokens, not 128",))
    (verdict,) = [v for v in judge(cached_and_short) if not v.passed]
    assert (verdict.status, verdict.found) == ("failed", f"at most 16 new tokens, not 128, {CUT}")


def test_speculation_that_nobody_tells_of_is_not_judged_and_excuses_no_departure() -> None:
    facts = facts_of("Server", remote_run())
    facts = of_session(facts, undisclosed=("x",), possible_models="A or B")
    for smoke in (False, True):
        verdict = verdict_on(replace(facts, smoke=smoke), "generation")
        why = "the engine does not say x; A or B"
        assert (verdict.status, verdict.why) == ("not judged", why)
    departed = of_session(facts, deviations=("a prefix cache",))
    assert verdict_on(departed, "generation").status == "failed"
    verdict = verdict_on(of_session(facts, undisclosed=()), "generation")
    assert (verdict.status, verdict.why) == ("passed", "A or B")


def test_of_text_alone_no_token_is_judged() -> None:
    words = [{"tokens": "text"}, {"tokens": "ids"}, {}]
    assert [gives_text_alone(said) for said in words] == [True, False, False]
    facts = replace(facts_of("Server", remote_run(), "test06"), text_alone=True)
    assert {v.rule: (v.status, v.why) for v in judge(facts) if not v.passed} == dict.fromkeys(
        ("test06_first_token", "test06_eos", "test06_token_count"), ("not judged", TEXT_ALONE)
    )
    for mode in ("accuracy", "performance"):
        facts = replace(facts_of("Server", remote_run(), mode), text_alone=True)
        assert not_passed(judge(facts)) == {}


@pytest.mark.parametrize(("cached", "status"), [(None, "not judged"), (0, "passed")])
def test_a_cache_that_is_not_told_of_is_not_judged(cached: int | None, status: str) -> None:
    verdict = verdict_on(facts_of("Server", remote_run(cached=cached)), "cached_prompt_tokens")
    assert verdict.status == status
    accuracy = judge(facts_of("Server", remote_run(cached=cached), "accuracy"))
    assert [v.status for v in accuracy if v.rule == "accuracy_generation"] == ["passed"]


@pytest.mark.parametrize(
    ("over", "percentile", "queries"), [(0, 0.99, 459), (1, 0.99, 662), (1, 0.9, 64)]
)
def test_early_stopping_needs_loadgens_number(over: int, percentile: float, queries: int) -> None:
    """The numbers that LoadGen 5.0 to 6.0 writes into its logs."""
    assert queries_needed(over, percentile) == queries


@pytest.mark.parametrize("percentile", [0.5, 0.9, 0.99, 0.999])
def test_early_stopping_discards_as_many_as_its_queries_allow(percentile: float) -> None:
    least = queries_needed(1, percentile)
    for queries in (1, 2, least - 1, least, least + 1, 1000, 14_368, 1_738_404):
        discarded = discarded_queries(queries, percentile)
        assert discarded == 0 or queries_needed(discarded, percentile) <= queries
        assert queries_needed(discarded + 1, percentile) > queries
    # As in public logs.
    assert [discarded_queries(count, 0.9) for count in (100, 5000, 10_000)] == [3, 450, 930]
