"""Logs that are damaged: what a rule cannot read never passes it, and nothing raises.

Each key in turn is evidence/damaged_logs/test_each_key.py, long texts are in
evidence/loadgen/test_long_logs.py.
"""

from dataclasses import replace
from typing import Any

import pytest

from meta_tests.made_runs import MadeRun, every_scenario
from meta_tests.tampering.rule_breaks import not_passed, rule_names
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
