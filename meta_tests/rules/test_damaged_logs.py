"""Logs that are damaged: what a rule cannot read never passes it, and nothing raises.

Each key in turn is evidence/damaged_logs/test_each_key.py, long texts are in
evidence/loadgen/test_long_logs.py.
"""

from dataclasses import replace
from typing import Any

import pytest

from meta_tests.judging.unreadable_files import within
from meta_tests.made_runs import MadeRun, every_scenario
from meta_tests.tampering.rule_breaks import not_passed, rule_names
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.rules import judge
from mlperf_suite.rules.accuracy_files import parse_accuracy_txt


@pytest.mark.parametrize("text", ["", "\0", "x\ny", ":::MLLOG {", "\ufffd\x9b", "[]"])
def test_any_text_in_place_of_a_log_fails(text: str) -> None:
    run = MadeRun(*every_scenario()[0], "performance", submitted=True)
    assert not_passed(judge(run.facts(text)))
    assert not_passed(judge(run.facts(run.detail_text[: len(run.detail_text) // 2] + text)))


def test_a_missing_detail_log_fails_every_rule_that_needs_it() -> None:
    run = MadeRun(*every_scenario()[0], "performance")
    facts = run.facts("")
    files = {k: v for k, v in facts.logs.files.items() if k != DETAIL}
    failures = not_passed(judge(replace(facts, logs=replace(facts.logs, files=files))))
    needless = {"no_loadgen_errors", "accuracy_passed", "generation", "client_bound"}
    needless |= {"cached_prompt_tokens", "loadgen_clock"}
    assert set(rule_names(run)) - set(failures) == needless


@pytest.mark.parametrize("count", [False, True, "0", 1, [0]])
def test_a_count_of_errors_that_is_not_0_fails(count: Any) -> None:
    run = MadeRun(*every_scenario()[0], "performance", submitted=True)
    run.entries["num_errors"] = count
    assert "no_loadgen_errors" in not_passed(judge(run.facts()))


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
    with within(300):
        assert "validity_agrees" in not_passed(judge(run.facts()))


def test_an_estimate_longer_than_an_integer_fails() -> None:
    run = MadeRun(LLAMA3_1_8B_EDGE, LLAMA3_1_8B_EDGE.scenario("SingleStream"), "performance")
    text = run.entries["early_stopping_tpot_result"].replace(
        "estimate: ", f"estimate: {'9' * 5000}"
    )
    run.entries["early_stopping_tpot_result"] = text
    assert "validity_agrees" in not_passed(judge(run.facts()))


def test_the_last_share_of_a_line_of_json_is_the_score() -> None:
    text = '{"f1": 0.79, "all": {"f1": 0.8}}\nno {"f1": 0.1}\n'
    assert parse_accuracy_txt(text).scores == {"f1": 80.0}


def test_a_figure_that_no_float_holds_is_none() -> None:
    assert parse_accuracy_txt(f"{{'rouge1': 38.7, 'gen_num': {'1' * 400}}}").scores == {
        "rouge1": 38.7
    }


def test_a_figure_that_stands_in_double_quotes_too_is_unclear() -> None:
    """The official checker reads single quotes alone: a file of JSON alone has no figure."""
    read = parse_accuracy_txt('{\'rouge1\': 38.7}\n"rouge1": 30.0, "rouge2": 10.0\n')
    assert (read.unclear, read.scores) == ({"rouge1"}, {})
