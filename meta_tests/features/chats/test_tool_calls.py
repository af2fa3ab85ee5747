"""Calls of tools: what is the call that was asked for, and what is not.

Schemas that strangers wrote to harm are in evidence/agentic."""

from __future__ import annotations

from typing import Any

from mlperf_suite.features.chats.function_calls import same_calls

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
