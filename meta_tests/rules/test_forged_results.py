"""Small forgeries of a submission's answers and scores that no break of a single rule shows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from meta_tests.made_runs import MadeRun, cut_log
from meta_tests.tampering.log_forgeries import made
from meta_tests.tampering.rule_breaks import not_passed, verdict_on
from mlperf_suite.benchmarks.llama2_70b import LLAMA2_70B_99
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.rules import judge


@pytest.mark.parametrize("scenario", ["Offline", "Server"])
def test_a_cut_log_of_short_answers_is_seen(scenario: str) -> None:
    where = LLAMA2_70B_99.scenario(scenario)
    run = MadeRun(LLAMA2_70B_99, where, "accuracy", ROUNDS["v6.0"], submitted=True)
    # Of 294.45 tokens on average, one answer at least has a quarter.
    for longer, status in ((71, "passed"), (70, "failed")):
        run.cut_log = cut_log(tuple(run.answers), where.streams, longer)
        assert verdict_on(run.facts(), "accuracy_log_tokens").status == status


TOKENS = 7_225_344.0
"""294 for each of 24,576 answers."""


@pytest.mark.parametrize(
    "wrong",
    [
        {"rougeL": 78.1},
        {"rouge2": 78.1},
        {"rougeLsum": 79.9},
        {"gen_len": 2e8},
        {"gen_len": 9e6, "gen_tok_len": 2_457_600.0},
        {"gen_len": 24_576.0},
        {"gen_tok_len": math.nan},
    ],
    ids=str,
)
def test_scores_that_no_answers_have_are_seen(wrong: dict[str, float]) -> None:
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
