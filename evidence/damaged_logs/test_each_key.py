"""Each key that a rule reads, damaged in turn, and logs that are cut: none of them passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario, line
from meta_tests.tampering.rule_breaks import not_passed, put
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.rules import judge

ROUND = ROUNDS["v6.1"]


class Listening(dict[str, Any]):
    """A log's values that remember which keys were asked for."""

    def __init__(self, values: Any) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


PRESENCE_ONLY = {"power_end"}
"""Keys of which a rule asks only that they are there."""
UNDECIDED_BY = {
    # Repeated to the reader.
    "early_stopping_ttft_result",
    "early_stopping_tpot_result",
    # LoadGen 5.1 does not write it; qsl_reported_total_count then takes its place.
    "effective_accuracy_sample_count",
}
"""Keys that a rule reads and whose absence decides nothing."""


def keys_read(run: MadeRun) -> list[str]:
    """The keys of the run's log that any of its rules decides by."""
    facts = run.facts()
    values = Listening(facts.logs.detail.values)
    detail = replace(facts.logs.detail, values=values)
    judge(replace(facts, logs=replace(facts.logs, detail=detail)))
    return sorted(values.asked & set(run.entries) - UNDECIDED_BY)


def made_kinds() -> dict[str, Callable[[], MadeRun]]:
    """A run of each mode of each scenario of the round, of the first benchmark that has it: any two
    have other lines in their logs, or other rules."""
    runs: dict[str, Callable[[], MadeRun]] = {}
    for benchmark, scenario in every_scenario():
        # An Interactive run is a Server run with tighter limits.
        if ROUND.name not in benchmark.rounds or scenario.name == "Interactive":
            continue
        # An audit that counts the tokens of thousands of answers would take minutes.
        audits = (audit.mode for audit in benchmark.audits if not audit.mean_tokens)
        for mode in ("accuracy", "performance", "test06", *audits):
            # In its session, an audit of a LoadGen that is not known passes.
            submitted = mode.startswith("test")
            made = partial(MadeRun, benchmark, scenario, mode, ROUND, submitted=submitted)
            runs.setdefault(f"{scenario.name}-{mode}", made)
    return runs


KINDS = made_kinds()


@pytest.fixture(params=KINDS.values(), ids=[*KINDS])
def run(request: pytest.FixtureRequest) -> MadeRun:
    made: MadeRun = request.param()
    return made


def passes(run: MadeRun, text: str | None = None) -> bool:
    return not not_passed(judge(run.facts(text)))


def passes_with(run: MadeRun, key: str, value: object) -> bool:
    """Whether a run with another value passes; None is a line that is not there."""
    before = dict(run.entries)
    put(run, key, value)
    try:
        return passes(run)
    finally:
        run.entries = before


WRONG: tuple[Any, ...] = ([], {}, "", "x", -1, float("nan"), 10**400, [[1]], "\ud800")


def test_a_key_that_a_rule_reads_is_never_missed_of_a_wrong_kind_or_said_twice(
    run: MadeRun,
) -> None:
    assert passes(run)
    for number, key in enumerate(keys_read(run)):
        assert not passes_with(run, key, None), key
        if key not in PRESENCE_ONLY:
            wrong = WRONG[number % len(WRONG)]
            assert not passes_with(run, key, "x" if wrong == run.entries[key] else wrong), key
        if not key.startswith(("loadgen_", "power_", "generated_")):
            run.broken_lines = [line(key, run.entries[key])]
            assert not passes(run), key
            run.broken_lines = []


def test_a_log_that_is_cut_or_has_a_line_that_cannot_be_read_never_passes(run: MadeRun) -> None:
    text = run.detail_text
    for at in range(0, len(text.rstrip()), len(text) // 20):
        assert not passes(run, text[:at])
    lines = text.splitlines()
    for at in range(0, len(lines), 7):
        cut = 1 + at * 13 % (len(lines[at]) - 1)
        for wrong in (lines[at][:cut], lines[at][cut:], "\0" * cut):
            assert not passes(run, "\n".join([*lines[:at], wrong, *lines[at + 1 :]]))


def test_any_text_in_place_of_a_log_fails(run: MadeRun) -> None:
    for text in ("", "\0", "x\ny", ":::MLLOG {", "\ufffd\x9b", "[]"):
        assert not passes(run, text), text
