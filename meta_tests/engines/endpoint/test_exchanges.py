"""What a client process tells of an answer, whatever pieces it came in."""

from __future__ import annotations

import json
from array import array
from typing import Any, cast

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.engines.endpoint.adapters import ADAPTERS
from mlperf_suite.engines.endpoint.exchanges import Generating, Shared
from mlperf_suite.engines.endpoint.messages import Done, Failed, First, Hello, Sampling
from mlperf_suite.engines.endpoint.pool import Pool
from mlperf_suite.engines.endpoint.text_codec import TextCodec

STREAMED = Sampling(12, 1, 0.0, 1.0, 1, 42, wants_first=True, retries=0)


def answered(
    form: str, *events: object, sampling: Sampling = STREAMED, model: str = "m"
) -> list[Any]:
    """What the engine is told of a request that is answered with these events."""
    hello = Hello([], form, model, None, {}, None, None, 49_152, None, 1, 25.0)
    told: list[Any] = []
    text = TextCodec(str(embedded_model_dir())) if form == "text" else None
    shared = Shared(hello, ADAPTERS[form], text, [cast(Pool, None)], told.append, [0])
    request = Generating(shared, 7, 0, array("i", [1, 2, 3]).tobytes(), sampling)
    shared.under_way.add(request)
    for number, event in enumerate(events):
        request.event(json.dumps(event).encode(), 10.0 + number)
    request.ended(20.0)
    assert not shared.under_way
    return told


def piece(**choice: object) -> dict[str, object]:
    return {"model": "m", "choices": [choice]}


def test_a_first_token_is_told_before_the_answer_and_when_it_came() -> None:
    first, done = answered(
        "vllm", piece(token_ids=[5]), piece(token_ids=[6, 7], finish_reason="length")
    )
    assert first == First(7, [5], 10.0)
    assert (done.token_ids, done.first, done.arrived) == ([5, 6, 7], 10.0, 20.0)


def test_nobody_is_told_a_first_token_that_nobody_waits_for() -> None:
    alone = Sampling(12, 1, 0.0, 1.0, 1, 42, wants_first=False, retries=0)
    (done,) = answered("vllm", piece(token_ids=[5], finish_reason="stop"), sampling=alone)
    assert isinstance(done, Done)


def test_a_text_answer_that_ends_at_once_has_a_first_token_all_the_same() -> None:
    first, done = answered("text", piece(text="", finish_reason="stop"))
    assert (first.token_ids, first.arrived) == (done.token_ids, 20.0)
    assert len(done.token_ids) == 1 and done.first == 20.0


@pytest.mark.parametrize(
    ("events", "why", "unfit"),
    [
        ([], "answered without a token", True),
        ([piece(text="a word")], "answered without a token", True),
        ([piece(token_ids=[5])], "finish_reason", False),
        ([piece(token_ids=[49_152], finish_reason="stop")], "beyond the vocabulary", False),
    ],
)
def test_what_is_no_whole_answer_is_told_once(events: list[Any], why: str, unfit: bool) -> None:
    *firsts, failed = answered("vllm", *events)
    assert isinstance(failed, Failed) and why in failed.why and failed.unfit is unfit
    assert all(isinstance(one, First) for one in firsts)


@pytest.mark.parametrize(
    ("asked", "named", "other"),
    [("m", "m", None), ("m", "m@main", None), ("a@main", "a@main", None), ("m", "n", "n")],
)
def test_another_model_is_told_and_a_revision_of_the_same_is_none(
    asked: str, named: str, other: str | None
) -> None:
    event = {"model": named, "choices": [{"token_ids": [5], "finish_reason": "stop"}]}
    *_, done = answered("vllm", event, model=asked)
    assert done.other_model == other
