"""TEST06: answers at their end, the audit's settings, and how many answers chance logs."""

import math
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, cut_log, every_scenario, line
from meta_tests.tampering.rule_breaks import (
    AGREEMENT,
    made,
    not_passed,
    verdict_on,
    without_agreement,
)
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
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


# Small forgeries of a submission's answers and scores that no break of a single rule shows


@pytest.mark.parametrize("scenario", ["Offline", "Server"])
def test_a_cut_log_of_short_answers_is_seen(scenario: str) -> None:
    where = LLAMA2_70B_99.scenario(scenario)
    run = MadeRun(LLAMA2_70B_99, where, "accuracy", ROUNDS["v6.0"], submitted=True)
    # Of 294.45 tokens on average, one answer at least has a quarter.
    for longer, status in ((71, "passed"), (70, "failed")):
        run.cut_log = cut_log(tuple(run.answers), where.streams, longer)
        assert verdict_on(run.facts(), "accuracy_log_tokens").status == status


@pytest.mark.parametrize("of", ["nothing", "zeros", "the cut log", "a log"])
def test_the_hash_of_no_whole_log_is_seen(of: str) -> None:
    where = LLAMA2_70B_99.scenario("Server")
    run = MadeRun(LLAMA2_70B_99, where, "accuracy", ROUNDS["v6.0"], submitted=True)
    texts = {"nothing": "", "the cut log": run.cut_log, "a log": "another"}
    run.hash = sha256(texts[of].encode()).hexdigest() if of in texts else "0" * 64
    wrong = set() if of == "a log" else {"accuracy_log_ends"}
    assert set(not_passed(judge(run.facts()))) == wrong


TOKENS = 7_225_344.0
"""294 for each of 24,576 answers."""


class NumPys(float):
    """As NumPy 2 prints its own numbers in a dictionary."""

    def __format__(self, form: str) -> str:
        return f"np.float64({float(self)})"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"rougeL": 78.1}, {"rouge2": 78.1}, {"rougeLsum": 79.9}),
        *({"gen_len": 2e8}, {"gen_len": 24_576.0}),
        {"gen_len": 9e6, "gen_tok_len": 2_457_600.0},
        {"gen_tok_len": math.nan},
        {"rouge1": 90.1},
        {"rouge1": NumPys(77.7)},
        {"note": "FAILED"},
    ],
    ids=str,
)
def test_scores_that_no_answers_have_are_seen(wrong: dict[str, Any]) -> None:
    scenario = LLAMA2_70B_99.scenario("Server")
    run = MadeRun(LLAMA2_70B_99, scenario, "accuracy", ROUNDS["v6.0"], submitted=True)
    run.scores |= {"tokens_per_sample": 294.0, "gen_num": 24_576.0}
    run.scores |= {"gen_len": 4 * TOKENS, "gen_tok_len": TOKENS}
    assert not_passed(judge(run.facts())) == {}
    run.scores |= wrong
    assert set(not_passed(judge(run.facts()))) == {"accuracy_score_figures"}


@pytest.mark.parametrize(
    ("scenario", "at", "new"),
    [
        ("Server", slice(9, 9), "First token check pass: False"),
        ("Offline", slice(9, 9), "First token check pass: True"),
        ("Server", slice(0, 1), "First token check pass: Skipped"),
        ("Server", slice(3, 4), "TEST06 verification failed"),
        ("Server", slice(9, 9), "TEST FAIL"),
        ("Server", slice(0, 0), "TEST09: Verify Output Token Length"),
    ],
)
def test_an_audits_verification_says_nothing_else(scenario: str, at: slice, new: str) -> None:
    run = made(scenario, "test06")
    run.verify[at] = [new]
    assert set(not_passed(judge(run.facts()))) == {"test06_verified"}


@pytest.mark.parametrize(("alike", "status"), [(50, "passed"), (51, "failed")])
def test_most_answers_of_an_audit_are_not_the_same(alike: int, status: str) -> None:
    run = made("Offline", "test06")
    first = run.answers[0].token_ids
    run.answers[:alike] = [replace(answer, token_ids=first) for answer in run.answers[:alike]]
    assert verdict_on(run.facts(), "test06_answers").status == status
