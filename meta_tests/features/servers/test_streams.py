"""Answers that do not arrive as they were made are told from those that do."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from meta_tests.features.servers.http_requests import STREAMED, piece, shared_of, under_way
from meta_tests.made_runs import MadeRun, remote_run, stream_figures
from meta_tests.tampering.rule_breaks import verdict_on
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.messages import ServerAnswer
from mlperf_suite.engines.protocol import SHORT, StreamFigures
from mlperf_suite.features.servers.streams import StreamAccount
from mlperf_suite.rules.limits import held_back
from mlperf_suite.rules.verdict import Verdict

Event = tuple[float, int]
"""When it came, in s, and how many tokens it holds."""


def streamed(*events: Event) -> ServerAnswer:
    shared, messages = shared_of("vllm")
    request = under_way(shared, 7, msgspec.structs.replace(STREAMED, max_tokens=300))
    for at, tokens in (*events, (events[-1][0], 0)):
        content = piece(token_ids=[5] * tokens, finish_reason=None if tokens else "stop")
        request.on_event(json.dumps(content).encode(), at)
    request.on_end(events[-1][0])
    return messages[-1]  # type: ignore[no-any-return]


def figures(*answers: ServerAnswer) -> StreamFigures:
    account = StreamAccount()
    for answer in answers:
        account.add(answer, None)
    found = account.figures()
    assert found is not None
    return found


def judged(stream: StreamFigures | None, rule: str = "streamed_answers") -> Verdict:
    """As llama3.1-8b's Server, whose TPOT must be below 100 ms."""
    remote = replace(remote_run(), stream=stream)
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance", remote=remote)
    return verdict_on(run.facts(), rule)


def steps(tpot_s: float, *sizes: int) -> list[Event]:
    """Events of these sizes, each sent as soon as its tokens are made."""
    made = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return [(10.0 + tpot_s * tokens, size) for tokens, size in zip(made, sizes, strict=True)]


HONEST = {
    "a token each": [1] * 128,
    "speculative decoding": [1, *[8, 3, 5] * 8],
    "--stream-interval 64": [1, 64, 63],
    "two steps at once": [2, *[1] * 126],
    "short": [SHORT],
    "one token": [1],
}


@pytest.mark.parametrize("sizes", HONEST.values(), ids=HONEST)
@pytest.mark.parametrize("tpot_s", [0.0004, 0.03, 0.098, 0.3])
def test_honest_streams_pass_also_where_tpot_is_not_met(sizes: list[int], tpot_s: float) -> None:
    """That has its own rule."""
    found = figures(*[streamed(*steps(tpot_s, *sizes))] * 200)
    assert judged(found).passed and not found.at_once and not held_back(found)


HELD = {
    "in one piece": ([128], 0.03),
    "in one piece, sent in many": ([1] * 128, 0.00003),
    "64 at a time, at the end of some in one": ([64, 1], 0.11),
    "9 at a time": ([9, 9, 9, 9, 9, 9, 6], 0.104),
}


@pytest.mark.parametrize(("sizes", "tpot_s"), HELD.values(), ids=HELD)
def test_what_is_held_back_does_not_pass(sizes: list[int], tpot_s: float) -> None:
    found = figures(*[streamed(*steps(tpot_s, *sizes))] * 20)
    assert found.tpot_ms["p99"] < 100
    verdict = judged(found)
    assert verdict.status == "failed" and "first event" in verdict.found
    for limit in ("ttft_limit", "tpot_limit"):
        assert judged(found, limit).status == "not judged"
        assert "held back" in judged(found, limit).why


@pytest.mark.parametrize(("pieces", "held"), [(1, False), (2, True)])
def test_less_than_one_answer_in_a_hundred_may_come_in_one_piece(pieces: int, held: bool) -> None:
    whole, streams = streamed(*steps(0.03, 128)), streamed(*steps(0.03, *[1] * 128))
    found = figures(*[whole] * pieces, *[streams] * (200 - pieces))
    assert bool(held_back(found, 100)) is held and judged(found).passed is not held


def test_without_a_limit_half_as_long_again_is_too_much() -> None:
    """Of the median, and only where more came first than speculative decoding adds at a time."""
    for first, size, held in ((44, 128, True), (43, 128, False), (8, 12, False), (9, 12, True)):
        found = figures(*[streamed(*steps(0.03, first, *[1] * (size - first)))] * 3)
        assert bool(held_back(found)) is held, first


def test_a_tpot_at_the_limit_is_too_long() -> None:
    assert judged(stream_figures(99.9, 99.9)).passed
    assert judged(stream_figures(99.9, 100.0)).status == "failed"
    assert judged(stream_figures(100.0, 101.0)).passed
    assert judged(None).passed


def test_the_size_of_events_of_text_is_their_share_of_the_answer() -> None:
    shared, messages = shared_of("text")
    request = under_way(shared, 7)
    for at, text in ((1.0, "The capital of France"), (1.0, " is"), (2.0, " Paris")):
        request.on_event(json.dumps(piece(text=text, finish_reason="stop")).encode(), at)
    request.on_end(2.0)
    *_, answer = messages
    tokens = len(answer.tokens) // 4
    assert (tokens, answer.first_tokens) == (6, 4)
    assert dict(shared.events) == {5: 1, 1: 1}


def repeated(*times: tuple[int, float, int], first: float = 0.01) -> StreamFigures:
    """Answers of samples that took so long, and whose first event held so many of 40 tokens."""
    account = StreamAccount()
    for sample, took_s, held in times:
        fields: dict[str, Any] = {"sent": 0.0, "connecting": 0.0, "resent": 0, "arrived": took_s}
        fields |= {"prompt_tokens": 9, "completion_tokens": 40, "cached_tokens": None}
        fields |= {"finish_reason": "stop", "other_model": None}
        came = took_s if held == 40 else first * took_s
        tokens = array("i", [sample] * 40).tobytes()
        account.add(ServerAnswer(1, tokens, first=came, first_tokens=held, **fields), sample)
    found = account.figures()
    assert found is not None
    return found


def test_an_answer_from_memory_is_named() -> None:
    for took_s, held, count in ((0.01, 40, 1), (0.2, 40, 0), (0.01, 1, 0)):
        found = repeated((1, 1.0, 1), (1, took_s, held))
        assert (found.repeats, found.from_memory) == (1, count)
        verdict = judged(found, "repeated_samples")
        assert verdict.passed is not bool(count)
        assert ("the caching audit" in verdict.why) is bool(count)
    for stream in (None, repeated((1, 1.0, 1))):
        nothing = judged(stream, "repeated_samples")
        assert nothing.passed and "found nothing to judge: no " in nothing.line
    usual = [(sample, 1.0, 1) for sample in (1, 2, 1, 2, 3, 1)]
    assert repeated(*usual).repeat_ttft == (1.0, 3)


def test_a_quicker_first_token_of_repeated_samples_is_not_judged() -> None:
    for ratio, pairs, status in (
        (0.3, 64, "not judged"),
        (0.3, 63, "passed"),
        (0.34, 9999, "passed"),
    ):
        stream = replace(stream_figures(), repeats=pairs, repeat_ttft=(ratio, pairs))
        assert judged(stream, "repeated_samples").status == status
