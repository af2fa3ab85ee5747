"""What a client process tells of an answer, whatever pieces it came in."""

import asyncio
import json
from array import array
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from tokenizers import Tokenizer

from meta_tests.features.servers.http_requests import (
    SILENCE_S,
    STREAMED,
    WHOLE,
    WORKER_CONFIG,
    piece,
    shared_of,
    under_way,
)
from meta_tests.features.servers.wire import Wire, sent_by
from mlperf_suite.engines.framed_socket import frame
from mlperf_suite.engines.messages import Drop, Failure, Sampling, ServerAnswer, ServerFirstTokens
from mlperf_suite.features.servers.connection import Connection
from mlperf_suite.features.servers.http_requests import (
    GenerationRequest,
    HttpWorkerState,
    TextCodec,
    _wait_s,
)
from mlperf_suite.features.servers.http_worker import HttpWorker


def ids_of(answer: ServerAnswer) -> list[int]:
    return array("i", answer.tokens).tolist()


def messages_of(form: str, *events: object, model: str = "m") -> list[Any]:
    """What the engine is told of a request that is answered with these events."""
    shared, messages = shared_of(form, model)
    request = under_way(shared, 7)
    for number, event in enumerate(events):
        request.on_event(json.dumps(event).encode(), 10.0 + number)
    request.on_end(20.0)
    assert not shared.under_way
    return messages


def test_a_text_answer_that_ends_at_once_has_a_first_token_all_the_same() -> None:
    first, answer = messages_of("text", piece(text="", finish_reason="stop"))
    assert (first.token_ids, first.arrived) == (ids_of(answer), 20.0)
    assert len(ids_of(answer)) == 1 and answer.first == 20.0


@pytest.mark.parametrize(
    ("events", "why", "unfit"),
    [
        ([], "answered without a token", True),
        ([piece(text="a word")], "answered without a token", True),
        ([piece(token_ids=[5])], "finish_reason", False),
        (
            [{"model": "m", "choices": [{"index": 0, "text": "a"}, {"index": 1, "text": "a"}]}],
            "sent several answers to a request for one",
            False,
        ),
        *(
            ([piece(token_ids=[token], finish_reason="stop")], why, False)
            for token, why in (
                (32_000, "sent the token id 32000, beyond the vocabulary of 32,000"),
                (-1, "sent the token id -1, beyond the vocabulary of 32,000"),
                # Some versions of msgspec refuse to read it.
                (2**70, "sent "),
                (1.5, "sent JSON that is not a completion"),
            )
        ),
        *(
            (
                [piece(text="", **{name: {"content": "a"}})],
                f"`{name}`, as chat completions do",
                False,
            )
            for name in ("message", "delta", "reasoning_content", "tool_calls")
        ),
    ],
)
def test_what_is_no_whole_answer_is_told_once(events: list[Any], why: str, unfit: bool) -> None:
    *firsts, failure = messages_of("vllm", *events)
    assert isinstance(failure, Failure) and why in failure.why and failure.unfit is unfit
    assert all(isinstance(message, ServerFirstTokens) for message in firsts)


def test_another_model_is_told_and_a_revision_of_the_same_is_none() -> None:
    for own_name, reported, told in (
        ("m", "m", None),
        ("m", "m@main", None),
        ("a@main", "a@main", None),
        ("m", "org/m", None),
        ("m", "ORG/M@main", None),
        ("m", "n", "n"),
        ("m", "mm", "mm"),
    ):
        event = {"model": reported, "choices": [{"token_ids": [5], "finish_reason": "stop"}]}
        *_, answer = messages_of("vllm", event, model=own_name)
        assert answer.other_model == told


def test_an_answer_without_an_end_is_given_up() -> None:
    events = [piece(token_ids=[5])] * 200
    *_, failure = messages_of("vllm", *events)
    assert isinstance(failure, Failure)
    assert failure.why == "sent 113 pieces and 0 characters of an answer of at most 12 tokens"
    *_, failure = messages_of("text", piece(text="word " * 100_000))
    assert isinstance(failure, Failure) and "and 500,000 characters" in failure.why
    *_, failure = messages_of("text", *[piece(text="a")] * 200)
    assert isinstance(failure, Failure) and "113 pieces" in failure.why
    # A little too long is told of with the answer.
    *_, answer = messages_of("vllm", *events[:20], piece(token_ids=[6], finish_reason="stop"))
    assert isinstance(answer, ServerAnswer) and len(ids_of(answer)) == 21


def test_content_that_is_no_stream_is_named() -> None:
    for headers, name in (({b"content-type": b"text/html"}, "text/html"), ({}, "no content type")):
        shared, messages = shared_of("vllm")
        request = under_way(shared, 7)
        request.connection = Mock(streams=False, headers=headers)
        request.on_event(b"data: {}", 1.0)
        (failure,) = messages
        assert (
            failure.why
            == f"answered with {name}, where text/event-stream was requested: data: {{}}"
        )
        assert failure.unfit


def test_events_that_bring_nothing_are_as_good_as_silence() -> None:
    shared, messages = shared_of("text")
    request = under_way(shared, 7)
    request._began = 1.0
    request.on_event(json.dumps(piece(text="a word")).encode(), 10.0)
    assert shared.pieces == [1]
    for second in range(11, 50):
        request.on_event(json.dumps(piece(text="")).encode(), float(second))
        request.on_event(json.dumps({"model": "m", "choices": []}).encode(), float(second))
    assert shared.pieces == [1]
    # This process was stopped for 20 s of these, in which nothing could come.
    request.look(50.0, SILENCE_S, 20.0)
    assert len(messages) == 1
    request.look(56.0, SILENCE_S, 0.0)
    (_, failure) = messages
    assert "sent nothing for 25 s in the middle of an answer" in failure.why


@pytest.mark.parametrize(
    ("sampling", "streams"), [(STREAMED, False), (STREAMED, True), (WHOLE, False)]
)
def test_an_answer_in_one_piece_has_no_first_token_to_time(
    sampling: Sampling, streams: bool
) -> None:
    shared, messages = shared_of("vllm")
    request = under_way(shared, 7, sampling)
    request.connection = connection = Mock(streams=streams)
    request.on_event(json.dumps(piece(token_ids=[5], finish_reason="stop")).encode(), 10.0)
    request.on_end(10.0)
    if sampling.wants_first and not streams:
        (failure,) = messages
        assert isinstance(failure, Failure) and failure.unfit and "in one piece" in failure.why
        connection.close.assert_called_once_with()
    else:
        kinds = [ServerFirstTokens, ServerAnswer] if sampling.wants_first else [ServerAnswer]
        assert [type(message) for message in messages] == kinds


# A first token that never comes


def unstreamed(began: float) -> tuple[HttpWorkerState, list[Any], GenerationRequest]:
    """An answer that nobody streams, sent at this time, whose only piece came a second later."""
    shared, messages = shared_of("vllm")
    request = under_way(shared, 7, WHOLE)
    request._began = began
    request.on_event(json.dumps(piece(token_ids=[5])).encode(), began + 1)
    return shared, messages, request


def answered_in_full(shared: HttpWorkerState, number: int, began: float) -> None:
    request = under_way(shared, number, WHOLE)
    request._began = began
    request.on_event(json.dumps(piece(token_ids=[5], finish_reason="stop")).encode(), began + 1)
    request.on_end(began + 1)


def is_given_up(request: GenerationRequest, messages: list[Any], now: float) -> bool:
    request.look(now, SILENCE_S, 0.0)
    failures = [message.why for message in messages if isinstance(message, Failure)]
    assert failures in ([], ["sent nothing for 25 s in the middle of an answer"])
    return bool(failures)


def test_an_unstreamed_answer_that_a_later_request_overtook_has_stopped() -> None:
    shared, messages, request = unstreamed(100.0)
    others = [under_way(shared, number, WHOLE) for number in range(8, 12)]
    answered_in_full(shared, 20, 100.9)
    assert not is_given_up(request, messages, 127.0)
    answered_in_full(shared, 20, 101.1)
    assert not is_given_up(request, messages, 126.0)
    assert is_given_up(request, messages, 126.1)
    assert others


def test_an_unstreamed_answer_for_which_there_is_room_has_stopped() -> None:
    shared, messages, request = unstreamed(100.0)
    under_way(shared, 8, WHOLE)
    for number in range(20, 22):
        answered_in_full(shared, number, 100.5)
        assert not is_given_up(request, messages, 127.0)
    answered_in_full(shared, 22, 100.5)
    assert not is_given_up(request, messages, 126.0)
    assert is_given_up(request, messages, 126.1)


def test_what_waits_is_looked_at_and_given_up() -> None:
    shared, messages = shared_of("vllm")
    requests = [under_way(shared, number) for number in range(3)]
    silent, answered, unsent = requests
    silent._began, answered._began = 100.0, 101.0
    for message in requests:
        message.look(126.0, SILENCE_S, 0.0)
    assert not messages, "nobody has a first token yet"
    answered.on_event(json.dumps(piece(token_ids=[5])).encode(), 102.0)
    messages.clear()
    # This process was stopped for 20 s, in which nothing could come.
    silent.look(140.0, SILENCE_S, 20.0)
    assert not messages
    for message in (silent, unsent):
        message.look(146.0, SILENCE_S, 0.0)
    (failure,) = messages
    assert (failure.number, failure.died) == (0, False)
    assert failure.why.startswith("sent no first token for 26 s while requests sent later got")


def test_a_request_that_is_forgotten_is_heard_of_no_more() -> None:
    shared, messages = shared_of("vllm")
    request = under_way(shared, 7)
    request.forget()
    request._timer, request.connection = timer, connection = Mock(), Mock()
    request.forget()
    request.fail("late", died=True)
    request.refuse("later")
    assert timer.cancel.called and connection.close.called and not (messages or shared.under_way)


@pytest.mark.parametrize("messages", [[Drop()], [WORKER_CONFIG, WORKER_CONFIG]])
def test_a_client_is_greeted_first_and_once(messages: list[object]) -> None:
    async def hear() -> None:
        client = HttpWorker(asyncio.Event())
        with pytest.raises(ValueError, match="a WorkerConfig comes first and once; this is"):
            client.data_received(b"".join(map(frame, messages)))

    asyncio.run(hear())


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        (b"7", 7.0),
        (b" 0 ", 0.0),
        (b"1.5", 1.5),
        (b"Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        *(
            (value, None)
            for value in (b"", b"soon", b"-1", b"1.5e9", b"inf", b"\xb2", b"9" * 400 + b"s")
        ),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: bytes, wait_s: float | None) -> None:
    assert _wait_s({b"retry-after": value}) == wait_s
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True).encode()
    assert _wait_s({b"retry-after": date}) == pytest.approx(3600.0, abs=60)


# What is no answer, split anywhere


ERRORS = {
    **dict.fromkeys(
        ("error-in-stream", "error-event", "error-detail", "error-whole"),
        "answered with an error: EngineCore died",
    ),
    "compressed": "compressed an answer with gzip, although it was asked not to: turn that off",
    "status-500": "answered with status 500: the stand-in server refuses, as configured",
    "ends-early": "ended an answer without a finish_reason",
}


def sent_in(pieces: list[bytes], kind: str) -> tuple[HttpWorkerState, list[Any]]:
    """What is told of a request that is answered with these pieces."""
    shared, messages = shared_of(kind)
    shared.pools[0].head.return_value = b""  # type: ignore[attr-defined]
    connection = Connection(lambda freed: None, lambda lost: None)
    connection.connection_made(Wire())
    under_way(shared, 7).begin(connection)
    for part in filter(None, pieces):
        connection.data_received(part)
    return shared, messages


KINDS = ("vllm", "sglang", "text")


@pytest.mark.parametrize(("fault", "kind"), sorted(product(ERRORS, KINDS)))
def test_a_fault_is_told_in_the_same_words_split_at_every_byte(fault: str, kind: str) -> None:
    data = sent_by(kind, fault)
    for i in range(len(data)):
        _, messages = sent_in([data[:i], data[i:]], kind)
        (failure,) = (m for m in messages if isinstance(m, Failure))
        assert failure.why == ERRORS[fault]


@pytest.mark.parametrize(
    ("status", "passes"),
    [
        *((status, True) for status in (429, 500, 502, 503, 504)),
        *((status, False) for status in (400, 401, 403, 404)),
    ],
)
def test_only_what_was_refused_for_now_is_sent_again_and_only_if_it_may(
    status: int, passes: bool
) -> None:
    refusal = b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status

    async def refused(retries: int) -> tuple[int, list[Any]]:
        shared, messages = shared_of("vllm")
        shared.pools[0].head.return_value = b""  # type: ignore[attr-defined]
        sampling = msgspec.structs.replace(STREAMED, retries=retries)
        request = under_way(shared, 7, sampling)
        while not messages:
            resent = request.resent
            connection = Connection(lambda freed: None, lambda lost: None)
            connection.connection_made(Wire())
            request.begin(connection)
            connection.data_received(refusal)
        return resent, messages

    for retries in (0, 2):
        resent, messages = asyncio.run(refused(retries))
        assert [type(message) for message in messages] == [Failure]
        assert resent == (retries if passes else 0)
        words = "refused the key" if status in (401, 403) else "answered with status"
        assert messages[0].why.startswith(words)


@pytest.mark.parametrize("status", [b"429", b"503"])
def test_a_request_that_is_turned_away_is_sent_again_split_at_every_byte(status: bytes) -> None:
    async def all_splits() -> None:
        data = sent_by("vllm", "turned-away").replace(b"429", status, 1)
        for i in range(len(data)):
            shared, messages = sent_in([data[:i], data[i:]], "vllm")
            assert (shared.turned_away, messages) == ([1], [])
            assert len(shared.under_way) == 1

    asyncio.run(all_splits())


def test_a_request_that_cannot_be_made_is_the_fault_of_no_server() -> None:
    shared, messages = shared_of("vllm")
    shared.pools[0].head.side_effect = ValueError("no head")  # type: ignore[attr-defined]
    under_way(shared, 7).begin(Mock())
    (failure,) = messages
    assert failure.why == "could not be asked: ValueError: no head" and not failure.died


# Text in place of tokens


def test_what_a_server_puts_before_every_text_is_not_sent_twice(tmp_path: Path) -> None:
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    tokenizer = Tokenizer(WordLevel({"<s>": 0, "a": 1, "b": 2}, unk_token="<s>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    codec = TextCodec(str(tmp_path))
    assert codec.prompt([0, 1, 2]) == "a b"
    assert codec.prompt([1, 2]) == "a b"
    assert codec.tokens("a b") == [1, 2]
    assert codec.tokens("") == []
