"""What a client to a server elsewhere may take of a run, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario, remote_run
from meta_tests.tampering.rule_breaks import not_passed
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.rules import judge
from mlperf_suite.rules.facts import TEXT_ALONE, RunFacts, gives_text_alone
from mlperf_suite.rules.verdict import Verdict

JUST_NOT_BOUND = remote_run(0.899, 1.0, 1.0)


def facts_of(scenario: str, remote: RemoteRun | None, mode: Mode = "performance") -> RunFacts:
    return MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario(scenario), mode, remote=remote).facts()


def client_bound(scenario: str, remote: RemoteRun | None) -> Verdict:
    (verdict,) = [v for v in judge(facts_of(scenario, remote)) if v.rule == "client_bound"]
    return verdict


def test_an_engine_in_this_process_has_no_client() -> None:
    assert client_bound("Server", None).line == (
        "client_bound: passed: found no client: the engine is in this process, "
        "required below 90% of a core, out and back at most 1 ms at p99"
    )


@pytest.mark.parametrize("where", every_scenario(), ids=lambda w: f"{w[0].id}-{w[1].name}")
def test_just_below_its_limits_a_client_passes_in_every_scenario(where: Any) -> None:
    run = MadeRun(where[0], where[1], "performance", remote=JUST_NOT_BOUND)
    assert not_passed(judge(run.facts())) == {}


def test_a_full_processor_fails_with_its_number_in_smoke_too() -> None:
    for scenario in ("Offline", "Server"):
        facts = facts_of(scenario, remote_run(busy_share=0.973))
        for smoke in (False, True):
            (verdict,) = [v for v in judge(replace(facts, smoke=smoke)) if not v.passed]
            assert (verdict.rule, verdict.status) == ("client_bound", "failed")
            assert verdict.found == "97.3% of a core, out 0.20 ms, back 0.30 ms at p99"
            assert verdict.why == "a client process used 97.3% of a core"


def test_where_queries_come_one_by_one_a_delay_fails_and_in_offline_none_does() -> None:
    late = remote_run(out_ms=1.5, back_ms=None)
    verdict = client_bound("Server", late)
    assert (verdict.status, verdict.why) == (
        "failed",
        "out 1.50 ms at p99; back not measured at p99",
    )
    assert client_bound("Offline", late).passed
    in_smoke = replace(facts_of("Server", late), smoke=True)
    (verdict,) = [v for v in judge(in_smoke) if v.rule == "client_bound"]
    assert verdict.status == "shortened"


# What a server did otherwise than asked


CUT = "3 answers cut by the server's own limit"


@pytest.mark.parametrize("smoke", [False, True])
@pytest.mark.parametrize(
    ("mode", "rule"), [("performance", "generation"), ("accuracy", "accuracy_generation")]
)
def test_a_server_that_did_not_do_as_asked_fails_smoke_too(
    mode: Any, rule: Any, smoke: Any
) -> None:
    facts = replace(facts_of("Server", remote_run(departures=(CUT,)), mode), smoke=smoke)
    (verdict,) = [v for v in judge(facts) if not v.passed]
    assert (verdict.rule, verdict.status, verdict.found) == (rule, "failed", CUT)
    cached_and_short = replace(facts, departures=("at most 16 new tokens, not 128",))
    (verdict,) = [v for v in judge(cached_and_short) if not v.passed]
    assert (verdict.status, verdict.found) == ("failed", f"at most 16 new tokens, not 128, {CUT}")


def test_of_text_alone_no_token_is_judged() -> None:
    facts = replace(facts_of("Server", remote_run(), "test06"), text_alone=True)
    assert {v.rule: (v.status, v.why) for v in judge(facts) if not v.passed} == dict.fromkeys(
        ("test06_first_token", "test06_eos", "test06_token_count"), ("not judged", TEXT_ALONE)
    )
    for mode in ("accuracy", "performance"):
        facts = replace(facts_of("Server", remote_run(), mode), text_alone=True)
        assert not_passed(judge(facts)) == {}


def test_whether_text_is_all_that_a_server_gives_is_in_the_engines_own_words() -> None:
    assert gives_text_alone({"tokens": "text"})
    assert not gives_text_alone({"tokens": "ids"})
    assert not gives_text_alone({})


@pytest.mark.parametrize(("cached", "status"), [(None, "not judged"), (0, "passed")])
def test_a_cache_that_a_server_does_not_tell_of_is_not_judged(
    cached: int | None, status: str
) -> None:
    (verdict,) = [
        v
        for v in judge(facts_of("Server", remote_run(cached=cached)))
        if v.rule == "cached_prompt_tokens"
    ]
    assert verdict.status == status
    accuracy = judge(facts_of("Server", remote_run(cached=cached), "accuracy"))
    assert [v.status for v in accuracy if v.rule == "accuracy_generation"] == ["passed"]
