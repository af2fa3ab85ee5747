"""Which programs a command starts, and how alike two answers are."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.features.chats.bash_calls import likeness, programs_of


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


@pytest.mark.parametrize("text", ['"\\' * 10_000, "[" * 100_000, "A=1 " * 5_000])
def test_hostile_calls_have_no_programs_and_take_no_time(text: str) -> None:
    began = time.process_time()
    calls: list[Any] = [
        None,
        [],
        {"function": 1},
        {"function": {"name": "bash", "arguments": 3}},
        "bash",
    ]
    assert programs_of(calls) == programs_of("bash") == programs_of(None) == []
    programs_of([bash(text), {"function": {"name": "bash", "arguments": text}}])
    assert time.process_time() - began < 20


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from("abc")))
def test_likeness_is_of_multisets(first: list[str], second: list[str]) -> None:
    same = sum(min(first.count(name), second.count(name)) for name in "abc")
    assert likeness(first, second) == same / (len(first) + len(second) - same)
    assert likeness(first, first[::-1]) == 1
