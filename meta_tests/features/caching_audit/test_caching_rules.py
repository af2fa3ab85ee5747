"""The caching audit's rules where logs or the engine tell little, and its exact interval."""

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import pytest

from meta_tests.features.caching_audit.made_audits import MadeAudit
from meta_tests.made_runs import line
from meta_tests.tampering.rule_breaks import not_passed
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.caching_audit.block_times import (
    LOOKS,
    MAX_SPEEDUP,
    RISK,
    Caching,
    Interval,
    interval_of,
)
from mlperf_suite.features.caching_audit.block_times import MODE as CACHING
from mlperf_suite.rules import judge
from mlperf_suite.rules.verdict import Verdict

ONE_TOKEN = "Number of tokens need to be greater than 1"


def caching_run() -> MadeAudit:
    return MadeAudit(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Offline"), CACHING)


def statuses(verdicts: list[Verdict]) -> dict[str, str]:
    """Of the rules that did not pass."""
    return {v.rule: v.status for v in verdicts if not v.passed}


def test_too_few_pairs_decide_nothing() -> None:
    run = caching_run()
    del run.caching[-2:]
    assert statuses(judge(run.facts())) == {
        "caching_speed": "not judged",
        "caching_samples": "failed",
    }


def test_without_a_block_nothing_passes_for_speed() -> None:
    facts: Any = caching_run().facts()
    verdicts = judge(replace(facts, caching=Caching((), 0)))
    assert statuses(verdicts)["caching_speed"] == "failed"
    assert statuses(verdicts)["caching_samples"] == "failed"


def test_a_pair_without_a_time_is_none() -> None:
    run = caching_run()
    for block in run.caching[:2]:
        block.entries["result_max_latency_ns"] = None
    assert statuses(judge(run.facts())) == {"caching_speed": "not judged"}


@pytest.mark.parametrize(("text_alone", "status"), [(True, "not judged"), (False, "failed")])
def test_answers_of_text_alone_may_have_other_lengths(text_alone: bool, status: str) -> None:
    run = caching_run()
    run.caching[3].answers[0] = (run.caching[3].answers[0][0], (7,))
    run.broken_lines.append(line("error_runtime", ONE_TOKEN, error=True))
    by_rule = statuses(judge(replace(run.facts(), text_alone=text_alone)))
    errors = {} if text_alone else {"caching_no_loadgen_errors": "failed"}
    assert by_rule == {"caching_answers": status, **errors}


@pytest.mark.parametrize(
    "words",
    [
        "Multiple conf files are used",
        # Of a block of 7 ms, which a busy machine interrupted between two readings.
        "PerfClock and system_clock differ by more than 1%!  pc_sc_ratio: 1.16667",
    ],
)
def test_what_loadgen_always_says_of_blocks_is_no_error(words: str) -> None:
    run = caching_run()
    run.broken_lines.append(line("error_runtime", words, error=True))
    assert not_passed(judge(run.facts())) == {}


def test_an_engine_that_does_not_count_is_not_judged_by_its_count() -> None:
    run = caching_run()
    run.cached_tokens = None
    assert statuses(judge(run.facts())) == {"caching_prompt_tokens": "not judged"}


def interval(pairs: list[tuple[float, float]]) -> Interval:
    estimate = interval_of(pairs)
    assert estimate is not None
    return estimate


def test_too_few_pairs_have_no_ends() -> None:
    assert interval_of([]) is None
    for pairs in range(1, 9):
        estimate = interval([(9.0, 1.0)] * pairs)
        assert (estimate.low, estimate.high, estimate.finding) == (None, None, "cannot tell")


def signed_rank_chance(pairs: int, most: int) -> float:
    """The chance that the ranks of the positive signs sum up to at most so much, by enumeration."""
    draws = itertools.product((0, 1), repeat=pairs)
    sums = [sum(rank for rank, sign in enumerate(draw, 1) if sign) for draw in draws]
    return sum(total <= most for total in sums) / len(sums)


@pytest.mark.parametrize("pairs", [10, 12])
def test_the_ends_are_those_of_the_signed_rank_test(pairs: int) -> None:
    """The widest interval that leaves out at most the risk of one look on each side."""
    chance = random.Random(pairs)
    noise = [chance.gauss(0.02, 0.1) for _ in range(pairs)]
    estimate = interval([(math.exp(of_pair), 1.0) for of_pair in noise])
    walsh = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(noise, 2))
    risk = RISK / len(LOOKS)
    left_out = [k for k in range(1, 40) if signed_rank_chance(pairs, k - 1) <= risk][-1]
    assert estimate.low == pytest.approx(math.expm1(walsh[left_out - 1]))
    assert estimate.high == pytest.approx(math.expm1(walsh[-left_out]))


@pytest.mark.parametrize(
    ("estimate", "finding"),
    [
        (Interval(0.0, -0.01, 0.01), "no caching"),
        (Interval(0.05, 0.0, MAX_SPEEDUP), "cannot tell"),
        (Interval(0.15, MAX_SPEEDUP, 0.2), "cannot tell"),
        (Interval(0.15, 0.11, 0.2), "caching"),
        (Interval(9.0, None, None), "cannot tell"),
    ],
)
def test_the_finding_follows_from_the_ends(estimate: Interval, finding: str) -> None:
    assert estimate.finding == finding
