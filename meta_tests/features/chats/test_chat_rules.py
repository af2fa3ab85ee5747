"""The rules of messages: an honest run passes each, and each sees its own break alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, stream_figures, write_run
from mlperf_suite.features.chats.chat_prompts import CHATS
from mlperf_suite.features.chats.chat_rules import ChatFacts
from mlperf_suite.features.chats.qwen3_6_27b import QWEN3_6_27B
from mlperf_suite.judging.judge import judge_folder
from mlperf_suite.rules import judge
from mlperf_suite.rules.registry import every_rule

SENT = {"temperature": 0.0, "seed": 42.0, "max_tokens": 1024.0, "concurrency": 1.0}
BOTH: dict[str, Any] = {"sent": SENT, "reasoned": 0, "miscounted": ()}


def facts_with(count: int) -> dict[str, Any]:
    return BOTH | dict.fromkeys(("asked", "answered", "expected"), count)


REPLAY = ChatFacts(
    QWEN3_6_27B,
    "performance",
    **facts_with(1_007),
    conversations=20,
    context=32_768,
    accuracy_passed=True,
    seconds=9_400.0,
    stream=stream_figures(),
)
CALLS = ChatFacts(
    QWEN3_6_27B,
    "accuracy",
    **facts_with(995),
    scores={"overall": 83.65, "normalized": 85.33},
    checker="bfcl-eval's AST checker",
    bfcl=True,
)
BREAKS: dict[str, dict[str, Any]] = {
    "replay_settings": {"sent": {**SENT, "temperature": 0.1}},
    "whole_sessions": {"conversations": 19},
    "every_turn": {"answered": 1_006},
    "replay_no_reasoning": {"reasoned": 1},
    "context_length": {"context": 32_767},
    "replay_counts": {"miscounted": ("a prompt of 10 tokens is 11",)},
    "most_duration": {"seconds": 14_401.0},
    "chat_generation": {"deviations": ("the server runs another model",)},
    "calling_passed": {"accuracy_passed": False},
    "replay_streamed": {"stream": replace(stream_figures(later_ms=None), at_once=1)},
    "accuracy_calling_settings": {"sent": {**SENT, "concurrency": 2}},
    "accuracy_every_question": {"answered": 994},
    "accuracy_whole_questions": {"asked": 994, "answered": 994, "expected": 994},
    "accuracy_calling_no_reasoning": {"reasoned": 995},
    "accuracy_calling_counts": {"miscounted": ("sent 3 tokens where its usage counts 4",)},
    "accuracy_calls_checked": {"bfcl": False, "checker": "the suite's own comparison"},
    "accuracy_calling_overall": {"scores": {"overall": 83.64, "normalized": 90.0}},
    "accuracy_calling_normalized": {"scores": {"overall": 90.0, "normalized": 85.32}},
}
UNKNOWN: dict[str, dict[str, Any]] = {
    "replay_settings": {"sent": {"temperature": 0.0}},
    "replay_no_reasoning": {"reasoned": None},
    "context_length": {"context": None},
    "replay_counts": {"miscounted": None},
    "most_duration": {"seconds": None},
    "calling_passed": {"accuracy_passed": None},
    "accuracy_calling_overall": {"ungated": "another model"},
}


def statuses(facts: ChatFacts) -> dict[str, str]:
    return {v.rule: v.status for v in judge(facts) if v.status != "passed"}


def honest(rule: str) -> ChatFacts:
    return CALLS if rule.startswith("accuracy_") else REPLAY


def test_each_rule_has_a_break() -> None:
    assert set(BREAKS) == {rule.name for rule in every_rule() if rule.run_kind == CHATS}


def test_an_honest_run_passes() -> None:
    assert (statuses(REPLAY), statuses(CALLS)) == ({}, {})


@pytest.mark.parametrize("rule", BREAKS)
def test_a_break_is_seen_by_its_own_rule_alone(rule: str) -> None:
    broken = replace(honest(rule), **BREAKS[rule])
    status = "not judged" if rule in ("accuracy_calls_checked", "replay_streamed") else "failed"
    assert statuses(broken) == {rule: status}


@pytest.mark.parametrize("rule", UNKNOWN)
def test_what_is_not_known_is_no_pass(rule: str) -> None:
    found = statuses(replace(honest(rule), **UNKNOWN[rule]))
    assert found.pop(rule) == "not judged"
    assert set(found) <= {"accuracy_calling_normalized"}


def test_settings_that_are_not_known_are_named_in_one_order() -> None:
    (unknown,) = (v for v in judge(replace(REPLAY, sent={})) if v.rule == "replay_settings")
    assert unknown.why == "not known: temperature, seed, concurrency, max_tokens"


def test_a_score_that_is_missing_fails_its_gate() -> None:
    gates = ("accuracy_calling_overall", "accuracy_calling_normalized")
    assert statuses(replace(CALLS, scores=None)) == dict.fromkeys(gates, "failed")


def test_smoke_shortens_counts_and_lengths_and_nothing_else() -> None:
    small = facts_with(11) | {"conversations": 3, "context": 2_048}
    run = replace(REPLAY, **(small | {"sent": {**SENT, "max_tokens": 32.0}}), smoke=True)
    shortened = ("replay_settings", "whole_sessions", "context_length")
    assert statuses(run) == dict.fromkeys(shortened, "shortened")
    assert statuses(replace(run, answered=10))["every_turn"] == "failed"


def test_logs_of_as_many_samples_are_of_no_benchmark_that_loadgen_does_not_run(
    tmp_path: Path,
) -> None:
    run = MadeRun(QWEN3_6_27B, QWEN3_6_27B.scenario("SingleStream"), "performance")
    write_run(tmp_path / QWEN3_6_27B.id, run)
    assert [group.name for group in judge_folder(tmp_path)] == [QWEN3_6_27B.id]
