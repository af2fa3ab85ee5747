"""TEST06: answers at their end, the audit's settings, and how many answers chance logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario, line
from meta_tests.tampering.rule_breaks import AGREEMENT, without_agreement
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.loadgen.logs import DETAIL, LoggedSample
from mlperf_suite.rules import judge

TARGET, QUERIES = "effective_accuracy_log_sampling_target", "requested_min_query_count"


def test_two_eos_inside_an_answer_are_none_at_its_end() -> None:
    run = MadeRun(*every_scenario()[0], "test06")
    eos = run.benchmark.eos_token_ids[0]
    first, second = run.answers[:2]
    run.answers[0] = LoggedSample(first.index, (eos, eos, 5, eos), (eos,), 4, first.place)
    run.answers[1] = LoggedSample(second.index, (eos,), (eos,), 1, second.place)
    assert without_agreement(judge(run.facts())) == {}


def test_without_eos_ids_the_end_of_an_answer_is_not_judged() -> None:
    run = MadeRun(*every_scenario()[0], "test06")
    verdicts = judge(replace(run.facts(), eos_token_ids=None))
    assert [v.status for v in verdicts if not v.passed] == ["not judged"]


def test_an_audit_run_may_say_that_two_conf_files_were_read() -> None:
    run = MadeRun(*every_scenario()[0], "test06")
    run.broken_lines.append(line("error", "Multiple conf files are used", error=True))
    run.entries["num_errors"] = 1
    assert without_agreement(judge(run.facts())) == {}


def audit(*, logged: int, queries: int, **changed: object) -> MadeRun:
    """A Server run of so many queries that logged so many answers, with other settings."""
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "test06")
    run.entries |= {"generated_query_count": queries, **changed}
    run.answers = (run.answers * 2)[:logged]
    return run


def statuses(run: MadeRun, *, smoke: bool) -> dict[str, str]:
    """Those of what did not pass, by rule."""
    verdicts = judge(replace(run.facts(), smoke=smoke))
    return {v.rule: v.status for v in verdicts if not v.passed and v.rule not in AGREEMENT}


def test_smoke_may_log_fewer_answers_of_fewer_queries() -> None:
    run = audit(logged=20, queries=20, **{TARGET: 20, QUERIES: 20})
    for smoke, status in ((True, "shortened"), (False, "failed")):
        rules = dict.fromkeys(("test06_settings", "test06_sample_count"), status)
        assert statuses(run, smoke=smoke) == rules


@pytest.mark.parametrize(
    "changed",
    [
        {"effective_min_duration_ms": 600_000},
        {"effective_accuracy_log_rng_seed": 0},
        {"effective_sample_concatenate_permutation": True},
        *({TARGET: target} for target in (0, 20.0)),
        *({QUERIES: queries} for queries in (-1, None, 1000)),
    ],
    ids=str,
)
def test_smoke_may_change_nothing_else_of_the_audit(changed: Any) -> None:
    run = audit(logged=20, queries=20, **{TARGET: 20, QUERIES: 20, **changed})
    failed = dict.fromkeys(("test06_settings", "test06_sample_count"), "failed")
    assert statuses(run, smoke=True) == failed


def test_smoke_is_held_to_the_answers_of_its_settings() -> None:
    none = statuses(audit(logged=0, queries=20, **{TARGET: 20, QUERIES: 20}), smoke=True)
    assert none["test06_settings"] == "shortened"
    assert none["test06_sample_count"] == "failed"
    assert statuses(audit(logged=99, queries=100), smoke=True) == {"test06_sample_count": "failed"}


@pytest.mark.parametrize(
    ("queries", "least"),
    # The first k with P(X <= k) > 1e-6 for X of Binomial(n, 100/n), as scipy.stats has them.
    [(50, 100), (100, 100), (101, 93), (200, 67), (24_576, 56), (10**9, 56)],
)
def test_as_many_answers_as_chance_leaves_are_enough(queries: Any, least: Any) -> None:
    assert statuses(audit(logged=least, queries=queries), smoke=False) == {}
    few = audit(logged=least - 1, queries=queries)
    assert statuses(few, smoke=False) == {"test06_sample_count": "failed"}


def test_a_submission_without_a_detail_log_may_have_drawn_fewer() -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "test06", submitted=True)
    run.answers = run.answers[:87]
    facts = run.facts("")
    files = {k: v for k, v in facts.logs.files.items() if k != DETAIL}
    verdicts = {v.rule: v for v in judge(replace(facts, logs=replace(facts.logs, files=files)))}
    assert verdicts["test06_sample_count"].line == (
        "test06_sample_count: passed: found 87 samples, required at least 56 samples "
        "(fewer of about 100 drawn have a probability of 1e-6)"
    )
