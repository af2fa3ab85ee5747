"""Salts in prompts: found in the client's forms, and what is wrong with them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mlperf_suite.client_results.sent_prompts import SentPrompts


def sent(prompts: Iterable[Any]) -> SentPrompts:
    counted = SentPrompts()
    for prompt in prompts:
        data = [prompt] if isinstance(prompt, str) else [None, None, prompt]
        counted.add(Raw(json.dumps(["PromptData", *data]).encode()))
    return counted


def salts(count: int, bits: int = 64, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [draw.randbytes(bits // 8).hex() for _ in range(count)]


def messages(system: str, user: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


@settings(max_examples=25)
@given(
    st.integers(1, 300),
    st.sampled_from([64, 128, 256]),
    st.integers(0, 99),
    st.sampled_from(["", "Be brief.\n\n"]),
)
def test_drawn_salts_are_accepted_in_each_form(
    count: int, bits: int, seed: int, system: str
) -> None:
    drawn = salts(count, bits, seed)
    texts = [f"{system}[{salt}] question {n % 7}" for n, salt in enumerate(drawn)]
    in_user = [messages(system, f"[{salt}] question {n % 7}") for n, salt in enumerate(drawn)]
    in_system = [messages(f"{system}[salt: {s}]", f"question {n % 7}") for n, s in enumerate(drawn)]
    for prompts in (texts, in_user, in_system):
        counted = sent(prompts)
        assert (counted.readable, counted.salted) == (count, count)
        assert list(counted.faults) == []
        assert counted.least_bits == bits


@pytest.mark.parametrize(
    ("prompts", "fault"),
    [
        ([f"[{s}] made up" for s in salts(9, 32)], "a salt of 32 bits"),
        ([f"[salt: {s}] made up" for s in salts(9, 16)], "a salt of 16 bits"),
        ([f"[{s}] made up" for s in salts(3)] * 2, "3 salts sent before"),
        (["made up", *(f"[{s}] made up" for s in salts(3))], "3 of 4 requests with a salt"),
        ([f"question {n} [{s}]" for n, s in enumerate(salts(5))], "4 salts not between"),
        ([messages(f"[{s}] Be brief.", "made up") for s in salts(5)], "5 salts not between"),
        ([f"[{n:016x}] made up" for n in range(4000)], "salts that vary in 1"),
        ([f"[{'0' * 8}{s[:8]}] made up" for s in salts(4000)], "salts that vary in 32 bits"),
    ],
)
def test_each_fault_has_its_words(prompts: list[Any], fault: str) -> None:
    (words,) = sent(prompts).faults
    assert words.startswith(fault)


@pytest.mark.parametrize("number", ["10000000", "1000000007", "20240131"])
def test_a_number_in_brackets_is_no_salt(number: str) -> None:
    """As in the examples of a problem of programming, or a date."""
    counted = sent([f"Input: nums = [{number}]\nOutput: 1", "made up"])
    assert (counted.readable, counted.salted) == (2, 0)
    assert list(counted.faults) == []


@pytest.mark.parametrize(
    "data", [b"null", b"{", b"[]", b'["PromptData"]', b'["PromptData", null, [1, 2]]', b"\xff"]
)
def test_what_has_no_text_is_not_counted(data: bytes) -> None:
    counted = SentPrompts()
    counted.add(Raw(data))
    assert (counted.readable, counted.salted) == (0, 0)


@settings(max_examples=40)
@given(st.text())
def test_a_text_of_the_data_set_is_no_fault(text: str) -> None:
    counted = sent([text, text])
    assert counted.readable == 2
    assert list(counted.faults) == [] or counted.salted
