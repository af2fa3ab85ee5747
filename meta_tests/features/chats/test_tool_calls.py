"""Calls of tools: what is the call that was asked for, and what is not.

Schemas written to harm are in evidence/chats."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.errors import SuiteError
from mlperf_suite.features.chats.bash_calls import programs_of, similarity
from mlperf_suite.features.chats.bfcl_worker import check, drawn, samples
from mlperf_suite.features.chats.function_calls import drawn_samples, same_calls, scores

DEEP = 100_000


def call(arguments: str) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": arguments}}


def test_arguments_that_are_none_are_a_wrong_call() -> None:
    for arguments in (
        *("[" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "__import__('os').system('false')"),
        *('{"a": ' + "9" * 5_000 + "}", "null", "", '{"a": NaN}'),
    ):
        assert not same_calls([call(arguments)], [{"f": {"a": [1]}}])


def test_calls_are_compared_with_types_and_in_any_order() -> None:
    first, second = {"f": {"a": [1]}}, {"f": {"a": [2, "two"], "b": ["", 3]}}
    assert same_calls([call('{"a": "two"}'), call('{"a": 1}')], [first, second])
    for wrong in ('{"a": true}', '{"a": 1.0}', '{"a": "1"}', '{"a": 1, "b": 3}', "{}"):
        assert not same_calls([call(wrong)], [first])
    assert not same_calls([call('{"a": 1}')] * 2, [first])
    assert not same_calls([], [first])
    assert same_calls([], [])


# Function calling: the official draw, and scores from verdicts


def test_the_official_shares_of_subsets() -> None:
    assert [drawn(n, "non_live") for n in (400, 200, 100, 50, 25)] == [248, 124, 62, 31, 25]
    assert [drawn(n, "live") for n in (258, 1053, 16, 24)] == [25, 105, 16, 24]
    assert [drawn(n, "hallucination") for n in (240, 884)] == [24, 88]


def test_scores_weigh_categories_as_officially() -> None:
    subsets = {"a": "simple_python", "b": "simple_java", "c": "multiple", "d": "irrelevance"}
    subsets |= {"e": "live_simple", "f": "live_multiple", "g": "live_multiple"}
    result = scores(subsets, {"a": 1, "b": 0, "c": 1, "e": 1, "f": 0, "g": 1})
    assert result.categories == {"non_live": 75.0, "hallucination": 0.0, "live": 66.67}
    assert (result.overall, result.normalized, result.missing) == (57.14, 47.22, 1)


def test_where_no_call_is_right_any_call_is_wrong() -> None:
    sample: dict[str, Any] = {"subset": "irrelevance", "reference": [], "functions": []}
    assert (check(sample, []), check(sample, [{"function": {}}])) == (1, 0)


def test_without_the_environment_the_message_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="run make bfcl"):
        drawn_samples(tmp_path / "python")
    assert samples(tmp_path) == [], "a release without files"


# Which programs a command starts, and how alike two answers are


def bash(command: str, name: str = "bash", field: str = "command") -> dict[str, Any]:
    return {"function": {"name": name, "arguments": json.dumps({field: command})}}


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("CUDA_VISIBLE_DEVICES=0 /usr/bin/python3.11 -m pytest", ["python"]),
        ("find . -name '*.py' | xargs rg \"a | sort\" | head -20", ["find", "xargs", "head"]),
        ("cd /a && sudo env A=1 LS -l; unknown || cat `ls`", ["ls", "cat"]),
        ("echo a\npip3 install b", ["pip"]),
        ("A=1", []),
        ("", []),
    ],
)
def test_programs_of_a_command(command: str, programs: list[str]) -> None:
    assert programs_of([bash(command)]) == programs
    assert programs_of([bash(command, field="cmd")]) == programs
    assert programs_of([bash(command, name="python")]) == []


def test_what_is_no_call_has_no_programs() -> None:
    function = {"function": {"name": "bash", "arguments": 3}}
    calls: list[Any] = [None, [], {"function": 1}, function, "bash"]
    assert programs_of(calls) == programs_of("bash") == programs_of(None) == []


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from("abc")))
def test_likeness_is_of_multisets(first: list[str], second: list[str]) -> None:
    same = sum(min(first.count(name), second.count(name)) for name in "abc")
    assert similarity(first, second) == same / (len(first) + len(second) - same)
    assert similarity(first, first[::-1]) == 1
