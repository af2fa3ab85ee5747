"""Logs that are damaged: what a rule cannot read never passes it, and nothing raises."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, every_scenario, line
from meta_tests.rules.damaged_text import within
from meta_tests.tampering.rule_breaks import not_passed, rule_names, runs
from mlperf_suite import strict_json
from mlperf_suite.benchmarks.gpt_oss_120b import GPT_OSS_120B
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.rules import judge
from mlperf_suite.rules.accuracy_files import parse_accuracy_txt


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


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_a_line_that_a_rule_reads_is_never_missed(run: Any, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(keys_read(run)))
    del run.entries[key]
    assert not_passed(judge(run.facts()))


@settings(max_examples=200, deadline=None)
@given(run=runs(), data=st.data())
def test_a_value_of_a_wrong_kind_never_passes(run: Any, data: st.DataObject) -> None:
    decisive = [key for key in keys_read(run) if key not in PRESENCE_ONLY]
    key = data.draw(st.sampled_from(decisive))
    wrong = data.draw(
        st.sampled_from([[], {}, "", "x", -1, float("nan"), 10**400, [[1]], "\ud800"])
    )
    run.entries[key] = "x" if wrong == run.entries[key] else wrong
    assert not_passed(judge(run.facts()))


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_a_truncated_log_never_passes(run: Any, data: st.DataObject) -> None:
    text = run.detail_text
    at = data.draw(st.integers(0, len(text.rstrip()) - 1))
    assert not_passed(judge(run.facts(text[:at])))


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_a_line_that_cannot_be_read_never_passes(run: Any, data: st.DataObject) -> None:
    lines = run.detail_text.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    cut = data.draw(st.integers(1, len(lines[at]) - 1))
    lines[at] = data.draw(st.sampled_from([lines[at][:cut], lines[at][cut:], "\0" * cut]))
    assert not_passed(judge(run.facts("\n".join(lines))))


@settings(max_examples=60, deadline=None)
@given(run=runs(), data=st.data())
def test_a_key_said_twice_never_passes(run: Any, data: st.DataObject) -> None:
    prefixes = ("loadgen_", "power_", "generated_")
    decisive = [key for key in keys_read(run) if not key.startswith(prefixes)]
    key = data.draw(st.sampled_from(decisive))
    run.broken_lines.append(line(key, run.entries[key]))
    assert not_passed(judge(run.facts()))


@settings(max_examples=200, deadline=None)
@given(run=runs(), data=st.data())
def test_random_bytes_never_raise_and_are_told_in_one_line(run: Any, data: st.DataObject) -> None:
    raw = bytearray(run.detail_text.encode())
    for _ in range(data.draw(st.integers(1, 20))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    for verdict in judge(run.facts(raw.decode("utf-8", errors="replace"))):
        assert verdict.line.isprintable()
        json.dumps(verdict.as_json()).encode()


@settings(max_examples=100, deadline=None)
@given(run=runs(), text=st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_any_text_in_place_of_a_log_fails(run: Any, text: Any) -> None:
    assert not_passed(judge(run.facts(text)))


def test_a_missing_detail_log_fails_every_rule_that_needs_it() -> None:
    run = MadeRun(*every_scenario()[0], "performance")
    facts = run.facts("")
    files = {k: v for k, v in facts.logs.files.items() if k != DETAIL}
    failures = not_passed(judge(replace(facts, logs=replace(facts.logs, files=files))))
    needless = {"no_loadgen_errors", "accuracy_passed", "generation", "client_bound"}
    needless |= {"cached_prompt_tokens", "loadgen_clock"}
    assert set(rule_names(run)) - set(failures) == needless


def many(count: int) -> dict[str, Any]:
    return {"result_query_count": count, "result_overlatency_query_count": count}


SLOW = {"result_time_to_output_token_max": 10**12}
NOT_STOPPED = (
    f" * Run unsuccessful.  * Processed {'9' * 5000} queries.  * Would need to run at least 9 more "
    "queries,  with the run being successful if every additional  query were under latency."
)


@pytest.mark.parametrize(
    ("scenario", "entries"),
    [
        ("Server", many(10**18) | SLOW),
        ("SingleStream", {"result_query_count": 10**18}),
        ("Server", many(10**10) | SLOW | {"effective_target_latency_percentile": 1 - 1e-16}),
        ("Server", {"early_stopping_tpot_result": NOT_STOPPED}),
    ],
)
def test_figures_beyond_every_run_fail_at_once(scenario: Any, entries: Any) -> None:
    benchmark = LLAMA3_1_8B_EDGE if scenario == "SingleStream" else LLAMA3_1_8B
    run = MadeRun(benchmark, benchmark.scenario(scenario), "performance", submitted=True)
    run.entries |= entries
    with within(60):
        assert "validity_agrees" in not_passed(judge(run.facts()))


def test_an_estimate_longer_than_an_integer_fails() -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    text = run.entries["early_stopping_tpot_result"]
    run.entries["early_stopping_tpot_result"] = text.replace(
        "estimate: ", f"estimate: {'9' * 5000}"
    )
    assert "validity_agrees" in not_passed(judge(run.facts()))


def test_a_summary_of_headings_fails_at_once() -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    run.summary += "TTFT Early Stopping Result:\n\nTPOT Early Stopping Result:\n" * 100_000
    with within(60):
        assert "summary_agrees" in not_passed(judge(run.facts()))


def test_a_verification_of_empty_lines_is_read_at_once() -> None:
    run = MadeRun(GPT_OSS_120B, GPT_OSS_120B.scenario("Offline"), "test07", submitted=True)
    run.verify += ["\n" * 1_000_000 + "-", "Accuracy score: 1"]
    with within(60):
        assert "test07_verified" in not_passed(judge(run.facts()))


def test_a_member_twice_among_many_is_found_at_once() -> None:
    names = [f"n{number}" for number in range(300_000)]
    with within(60), pytest.raises(strict_json.RepeatedMemberError, match="'last' twice"):
        strict_json.loads("{" + ",".join(f'"{name}":0' for name in (*names, "last", "last")) + "}")


def test_a_figure_that_no_float_holds_is_none() -> None:
    assert parse_accuracy_txt(f"{{'rouge1': 38.7, 'gen_num': {'1' * 400}}}").scores == {
        "rouge1": 38.7
    }
