"""Chat answers in pieces of any size, their times, and hostile ones, which end with a reason."""

import asyncio
import base64
import itertools
import json
from collections.abc import Sequence
from typing import Any, cast
from unittest.mock import Mock

import pytest

from meta_tests.features.servers.chat_stand_in import (
    Events,
    call_piece,
    chat_stand_in,
    delta,
    last,
    same,
)
from meta_tests.features.servers.scripted_server import Server, scripted
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import SuiteError
from mlperf_suite.features.chats.agent_replay import answered_turn, replay_summary
from mlperf_suite.features.chats.agent_sessions import RecordedTurn
from mlperf_suite.features.chats.chat import ChatLimits, ChatRequest
from mlperf_suite.features.chats.chat_client import ChatClient, ChatTurn, _PendingTurn
from mlperf_suite.features.servers.config import parse_endpoint
from mlperf_suite.features.servers.picture_messages import MAX_MEDIA_BYTES, picture_part

SAMPLING = Generation(max_new_tokens=16)
MESSAGES = [{"role": "user", "content": "Hello"}]
SMALL = ChatLimits(content=50, reasoning=60, arguments=70, calls=3, empty_events=9)


def turn_of(
    events: Events, *, pause_s: float = 0.0, limits: ChatLimits | None = None, **asked: Any
) -> ChatTurn:
    async def ask() -> ChatTurn:
        async with chat_stand_in(lambda body: events, pause_s=pause_s) as server:
            client = ChatClient(parse_endpoint(server.url), "m", token_ids=True)
            return await client.ask(ChatRequest(MESSAGES, SAMPLING, **asked), limits)

    return asyncio.run(ask())


ENDLESS = {
    "content": (itertools.repeat(delta(content="abcdefgh")), "characters of content"),
    "reasoning": (itertools.repeat(delta(reasoning="hm, hm, ")), "characters of reasoning"),
    "arguments": (itertools.repeat(call_piece(0, "[[[[", "f")), "a tool call's arguments"),
    "calls": ((call_piece(i, "", f"f{i}") for i in itertools.count()), "than 3 tool calls"),
    "nothing": (itertools.repeat(delta(role="assistant")), "events that bring nothing"),
    "tokens": (itertools.repeat({"choices": [{"token_ids": [1] * 40}]}), "tokens without an end"),
}


@pytest.mark.parametrize(("events", "why"), ENDLESS.values(), ids=ENDLESS)
def test_what_never_ends_is_ended(events: Events, why: str) -> None:
    assert why in turn_of(events, limits=SMALL).failure


def test_a_turn_that_takes_too_long_is_ended() -> None:
    turn = turn_of(itertools.repeat(delta(content="a")), pause_s=0.01, timeout_s=0.1)
    # How far it comes within that time is the machine's affair.
    assert turn.failure.endswith(" within 0.1 s")


def test_a_time_limit_says_what_did_not_happen() -> None:
    turn = _PendingTurn(cast(Any, None), b"", None)
    assert turn.missing == "had no connection free for a request"
    turn.begin(Mock())
    assert turn.missing == "did not begin its answer"
    turn.on_event(json.dumps(delta(content="a")).encode(), 1.0)
    assert turn.missing == "did not end its answer"
    turn.connection = Mock(streams=False)
    turn.on_event(json.dumps(delta(content="a")).encode(), 2.0)
    turn.on_event(b"no JSON", 3.0)
    turn.fail("was lost", died=True)
    assert "in one piece although a stream" in turn.result().failure


@pytest.mark.parametrize(("pause_s", "first"), [(0.01, 2), (0.0, 20)])
def test_what_comes_with_the_first_piece_is_counted(pause_s: float, first: int) -> None:
    """By its share of the text; what a gateway sends at once is one piece."""
    pieces = [delta(reasoning="a"), *[call_piece(0, "b", "f")] * 9, *last(tokens=20)]
    # Without a server: on a busy machine its pieces arrive as they can.
    turn = _PendingTurn(cast(Any, None), b"", None)
    for number, piece in enumerate(pieces):
        turn.on_event(json.dumps(piece).encode(), 1.0 + number * pause_s)
    turn.on_end(2.0)
    assert turn.result().first_tokens == first


def test_counts_that_differ_are_named() -> None:
    ids = {"choices": [{"delta": {"content": "ab"}, "token_ids": [5, 6]}]}
    assert turn_of([ids, *last(tokens=2)]).count_mismatch() == ""
    wrong = turn_of([ids, *last(tokens=9)])
    assert (wrong.tokens, wrong.count_mismatch()) == (2, "sent 2 tokens where its usage counts 9")


def test_an_error_or_no_reason_to_end_is_no_answer() -> None:
    assert "without a finish_reason" in turn_of([delta(content="a")]).failure
    turn = turn_of([delta(content="a"), {"error": {"message": "out of memory"}}])
    assert turn.failure == "answered with an error: out of memory"


def test_pictures_are_sent_as_they_are_and_none_that_is_too_large() -> None:
    url = picture_part(b"\x89PNG", "png")["image_url"]["url"]
    assert base64.b64decode(url.removeprefix("data:image/png;base64,")) == b"\x89PNG"
    with pytest.raises(SuiteError, match="a picture of 20,000,001 bytes"):
        picture_part(bytes(MAX_MEDIA_BYTES + 1), "png")


def test_turns_share_a_connection_and_a_server_that_is_gone_is_named() -> None:
    picture = [{"type": "text", "text": "What is it?"}, picture_part(bytes(MAX_MEDIA_BYTES), "png")]

    async def ask() -> None:
        async with chat_stand_in(same([delta(content="a"), *last()])) as server:
            client = ChatClient(parse_endpoint(server.url), "m")
            for content in ("Hello", picture, "Hello"):
                messages = [{"role": "user", "content": content}]
                turn = await client.ask(ChatRequest(messages, SAMPLING))
                assert (turn.failure, turn.answer.content, turn.resent) == ("", "a", False)
            url = server.bodies[1]["messages"][0]["content"][1]["image_url"]["url"]
            assert len(url) > MAX_MEDIA_BYTES
        gone = ChatClient(parse_endpoint("http://127.0.0.1:9"), "m")
        assert "refused the connection" in (await gone.ask(ChatRequest(MESSAGES, SAMPLING))).failure

    asyncio.run(ask())


def last_turn(script: Sequence[str], count: int) -> tuple[ChatTurn, Server]:
    """The last of so many turns, one after another."""

    async def ask() -> tuple[ChatTurn, Server]:
        async with scripted(script) as (server, port):
            client = ChatClient(parse_endpoint(f"http://127.0.0.1:{port}"), "m", connections=1)
            request = ChatRequest(MESSAGES, Generation(1))
            for _ in range(count):
                turn = await client.ask(request)
            return turn, server

    return asyncio.run(ask())


def test_a_turn_on_a_kept_connection_that_was_closed_is_sent_once_more() -> None:
    turn, server = last_turn(["answer", "close", "answer"], 2)
    assert (turn.failure, turn.answer.content, turn.resent) == ("", "a", True)
    assert [connection for connection, _ in server.seen] == [1, 1, 2]
    assert turn.sent <= server.seen[1][1]
    # And a replay counts it.
    recorded = RecordedTurn(1, (), {"role": "assistant", "content": "a"}, 0.0)
    figures = [answered_turn("a", n, recorded, turn) for n in (1, 2)]
    assert replay_summary(figures)["resent"] == 2
    for script in (["answer", "close", "close"], ["answer", "begin"]):
        turn, server = last_turn(script, 2)
        assert turn.failure.startswith("closed the connection")
        assert len(server.seen) == len(script)
