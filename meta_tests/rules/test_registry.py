"""Which rules hold for a run, and what smoke makes of them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.made_runs import MadeRun, every_scenario
from meta_tests.tampering.rule_breaks import not_passed, put, rule_names
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import LOADGEN
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.rules import clock, judge, rule_named, rules_for
from mlperf_suite.rules.accuracy_rules import gate_name
from mlperf_suite.rules.registry import every_rule, rule_of
from mlperf_suite.rules.registry import rule as rule_decorator
from mlperf_suite.rules.verdict import figure_words, lasted_words


@pytest.mark.parametrize("mode", ["accuracy", "performance", "test06"])
def test_the_open_division_lacks_the_gates_alone(mode: Any) -> None:
    gates = {"accuracy_hash", "offline_samples_per_query", "accuracy_passed"}
    gates |= {
        gate_name(metric)
        for b in BENCHMARKS.values()
        if b.run_kind == LOADGEN
        for metric in b.metrics
    }
    for benchmark, scenario in every_scenario():
        run = MadeRun(benchmark, scenario, mode, submitted=True)
        closed = rule_names(run)
        run.division = "open"
        closed_only = set(closed) - set(rule_names(run))
        assert all(name in gates or name.startswith("test06_") for name in closed_only)
        assert not gates & set(rule_names(run))
    assert not_passed(judge(run.facts())) == {}


@pytest.mark.parametrize("mode", ["accuracy", "performance"])
def test_logs_alone_are_not_judged_by_what_only_a_session_knows(mode: Any) -> None:
    run = MadeRun(*every_scenario()[0], mode)
    in_session = {v.rule for v in judge(run.facts())}
    run.deviations = None
    alone = {v.rule for v in judge(run.facts())}
    by_mode = {
        "accuracy": {"accuracy_generation", "accuracy_loadgen_clock"},
        "performance": {"generation", "cached_prompt_tokens", "client_bound", "loadgen_clock"},
    }
    assert in_session - alone == by_mode[mode]


@pytest.mark.parametrize(
    ("rule", "key", "value"),
    [
        ("min_duration", "effective_min_duration_ms", 10_000),
        ("target_percentile", "effective_target_latency_percentile", 0.9),
    ],
)
def test_smoke_shortens_and_never_passes(rule: str, key: str, value: float) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    run.entries[key] = value
    verdicts = {v.rule: v for v in judge(replace(run.facts(), smoke=True))}
    assert verdicts[rule].status == "shortened"
    assert not verdicts[rule].passed
    assert verdicts["seeds"].passed


@pytest.mark.parametrize(
    "row", [row for row in BENCHMARKS.values() if row.run_kind == LOADGEN], ids=lambda row: row.id
)
def test_each_benchmark_is_judged_by_its_own_figures(row: Any) -> None:
    names = {r.metric for r in rules_for(row, row.scenarios[0], "accuracy")} - {None}
    assert names == set(row.metrics)


def test_a_rule_is_found_by_its_function_and_by_the_name_of_its_verdicts() -> None:
    assert len({r.name for r in every_rule()}) == len(every_rule())
    for rule in every_rule():
        assert rule_of(rule.check, rule.subject) is rule is rule_named(rule.name)
        assert rule.sentence.endswith(".")
    with pytest.raises(KeyError, match="judge"):
        rule_of(judge)
    for terms, named in (
        ({"source": ""}, "fix"),
        ({"source": "", "fix": "", "sauce": ""}, "sauce"),
    ):
        with pytest.raises(TypeError, match=named):
            rule_decorator("performance", **terms)(clock.loadgen_clock)
    assert rule_named("run_2-loadgen_clock") is rule_of(clock.loadgen_clock)
    assert rule_named("no rule") is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "found nothing, required at least 600 s (effective_min_duration_ms is not in"),
        ("6e5", "found 6e5, required at least 600 s (effective_min_duration_ms is not a number"),
        (9_000, "found 9,000 ms, required at least 600 s"),
    ],
)
def test_a_verdict_says_what_was_found_and_what_is_required(value: Any, message: Any) -> None:
    run = MadeRun(*every_scenario()[0], "performance")
    put(run, "effective_min_duration_ms", value)
    assert message in not_passed(judge(run.facts()))["min_duration"]


def test_seeds_of_another_round_are_named() -> None:
    run = MadeRun(*every_scenario()[0], "performance", ROUNDS["v5.1"])
    (line,) = not_passed(judge(replace(run.facts(), round=ROUNDS["v6.1"]))).values()
    assert "seeds: failed: found the seeds of v5.1" in line


@given(st.floats(1e-9, 1e15), st.integers(3, 6))
def test_a_figure_keeps_its_digits_and_is_no_power_of_ten(value: float, digits: int) -> None:
    words = figure_words(value, digits)
    assert "e" not in words
    assert float(words.replace(",", "")) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@given(st.floats(0, 1e6))
def test_what_is_too_short_is_not_said_to_be_long_enough(seconds: float) -> None:
    words = float(lasted_words(seconds).removesuffix(" s").replace(",", ""))
    assert seconds - 0.1 - 1e-6 < words <= seconds + 1e-9
