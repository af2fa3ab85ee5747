"""Prompts of token ids: a salt is found by what they have in common, and so is what is wrong."""

from __future__ import annotations

import random

import pytest

from meta_tests.features.endpoints.made_inputs import (
    SYSTEM,
    Salt,
    hexadecimal,
    marker,
    salted,
    streams,
    users,
)
from mlperf_suite.features.endpoints.client_results import token_streams


def test_drawn_salts_have_no_fault() -> None:
    for make in (hexadecimal, marker):
        for passes, samples, system in ((2, 30, []), (4, 300, SYSTEM)):
            counted = salted(passes, make, samples, system)
            assert counted.is_salted is True
            assert list(counted.faults) == []


def test_prompts_without_a_salt_are_told_where_a_sample_is_sent_twice() -> None:
    texts = users(300, random.Random(1))
    prompts = [[*SYSTEM, *text] for text in texts]
    assert streams(prompts).is_salted is None
    counted = streams(prompts * 2)
    assert (counted.is_salted, counted.repeated, list(counted.faults)) == (False, 300, [])
    assert streams([]).is_salted is None


def test_samples_that_end_alike_have_no_salt() -> None:
    """Problems of LiveCodeBench end with half a hundred tokens on the form of the answer."""
    draw = random.Random(5)
    texts = [[*SYSTEM, *(draw.randrange(1000, 9000) for _ in range(200))] for _ in range(30)]
    prompts = [[*text, *range(50)] for text in texts]
    assert streams(prompts).is_salted is None
    assert streams([*prompts, *prompts[:3]]).is_salted is False
    drawn = [[*SYSTEM, *hexadecimal(draw), *prompt] for prompt in prompts * 3]
    assert streams(drawn).is_salted is True
    assert list(streams(drawn).faults) == []


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda draw: marker(draw, 2), "salts of 2 tokens"),
        (lambda draw: [7] * 4 + marker(draw, 1), "salts of 1 tokens"),
        (lambda draw: [draw.randrange(2) for _ in range(24)], "salts of token ids that vary in 2"),
    ],
)
def test_each_fault_has_its_words(make: Salt, fault: str) -> None:
    (words,) = salted(4, make, 300).faults
    assert words.startswith(fault)


def test_a_salted_prompt_sent_again_and_one_behind_the_users_text_are_told() -> None:
    draw = random.Random(2)
    texts = users(50, draw)
    prompts = [[*SYSTEM, *marker(draw), *text] for _ in range(3) for text in texts]
    (words,) = streams([*prompts, *prompts[:9]]).faults
    assert words == "9 prompts of token ids sent before"
    end = list(range(40))
    prompts = [[*SYSTEM, *text, *marker(draw), *end] for _ in range(3) for text in texts]
    # All end alike, so all are taken for one sample: its salt is all that differs.
    assert [*streams(prompts).faults] != []
    prompts = [[*SYSTEM, *text[:40], *marker(draw), *text] for _ in range(3) for text in texts]
    (words,) = streams(prompts).faults
    assert words == "salts behind 40 tokens of the user's text"


def test_of_many_prompts_some_samples_are_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_streams, "_MOST", 2**14)
    draw = random.Random(4)
    texts = users(200, draw)
    counted = streams([[*SYSTEM, *marker(draw), *text] for _ in range(3) for text in texts])
    assert counted.count == 600
    assert counted._kept <= 2**14
    assert {len(rows) for rows in counted._by_tail.values()} == {3}
    assert counted.is_salted is True
    assert list(counted.faults) == []
