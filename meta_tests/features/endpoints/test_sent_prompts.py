"""Salts in prompts: found in the client's forms, and what is wrong with them."""

from typing import Any

import pytest
from msgspec import Raw

from meta_tests.features.endpoints.made_inputs import messages, salts, sent
from mlperf_suite.features.endpoints.official_client_results.sent_prompts import SentPrompts


@pytest.mark.parametrize(
    ("prompts", "fault"),
    [
        ([f"[{s}] made up" for s in salts(9, 32)], "a salt of 32 bits"),
        ([f"[salt: {s}] made up" for s in salts(9, 16)], "a salt of 16 bits"),
        ([f"[{s}] made up" for s in salts(3)] * 2, "3 salts sent before"),
        (["made up", *(f"[{s}] made up" for s in salts(3))], "3 of 4 requests with a salt"),
        ([f"question {n} [{s}]" for n, s in enumerate(salts(5))], "4 salts not between"),
        ([messages(f"[{s}] Be brief.", "made up") for s in salts(5)], "5 salts not between"),
        ([f"[{'0' * 8}{s[:8]}] made up" for s in salts(4000)], "salts that vary in 32 bits"),
    ],
)
def test_each_fault_has_its_words(prompts: list[Any], fault: str) -> None:
    (words,) = sent(prompts).faults
    assert words.startswith(fault)


def test_a_number_in_brackets_is_no_salt() -> None:
    """As in the examples of a problem of programming, or a date."""
    for number in ("10000000", "1000000007", "20240131"):
        counted = sent([f"Input: nums = [{number}]\nOutput: 1", "made up"])
        assert (counted.readable, counted.salted) == (2, 0)
        assert list(counted.faults) == []


@pytest.mark.parametrize("data", [b"null", b"{", b'["PromptData", null, [1, 2]]', b"\xff"])
def test_what_has_no_text_is_not_counted(data: bytes) -> None:
    counted = SentPrompts()
    counted.add(Raw(data))
    assert (counted.readable, counted.salted) == (0, 0)
