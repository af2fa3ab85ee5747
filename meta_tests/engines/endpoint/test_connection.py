"""HTTP as servers speak it, in pieces of any size, and what is none of it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.endpoint import connection as http
from mlperf_suite.engines.endpoint.connection import Connection


class Wire(asyncio.Transport):
    """A transport without a network."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def abort(self) -> None:
        self.aborted = True


class Exchange:
    """An exchange that remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.ends: list[Any] = []

    def on_event(self, data: bytes, arrived: float) -> None:
        self.events.append(data)

    def on_end(self, arrived: float) -> None:
        self.ends.append("ended")

    def on_refusal(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.ends.append((status, body))

    def on_loss(self, why: str, any_data: bool) -> None:
        self.ends.append((why, any_data))


def open_exchange() -> tuple[Connection, Wire, Exchange, list[Connection]]:
    free: list[Connection] = []
    connection, wire, exchange = (
        Connection(free.append, lambda connection_lost_: None),
        Wire(),
        Exchange(),
    )
    connection.connection_made(wire)
    connection.send(b"POST / HTTP/1.1\r\n\r\n", exchange)
    return connection, wire, exchange, free


def chunked(*parts: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" + (
        b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"
    )


EVENTS = [b'{"a": 1}', b'{"b": "\xc3\xa9"}', b'{"c": 3}']


@given(st.lists(st.integers(1, 400), max_size=12), st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n"]))
def test_a_stream_is_the_same_however_it_is_cut(cuts: list[int], end: bytes) -> None:
    events = b"".join(b"data: " + event + end for event in EVENTS)
    whole = chunked(b": a comment\n\n", events[:20], events[20:], b"data: [DONE]" + end)
    connection, wire, exchange, free = open_exchange()
    edges = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    for start, stop in pairwise(edges):
        connection.data_received(whole[start:stop])
    assert exchange.events == EVENTS
    assert exchange.ends == ["ended"]
    assert free == [connection] and connection.usable and not wire.aborted


def test_a_connection_is_used_again_and_an_answer_in_one_piece_is_one_event() -> None:
    connection, _, exchange, free = open_exchange()
    answer = (
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"a": 1}'
    )
    connection.data_received(answer)
    again = Exchange()
    connection.send(b"POST / HTTP/1.1\r\n\r\n", again)
    connection.data_received(answer)
    assert exchange.events == again.events == [b'{"a": 1}']
    assert exchange.ends == again.ends == ["ended"]
    assert free == [connection, connection]


def test_a_stream_without_a_last_line_end_or_a_length_ends_with_the_connection() -> None:
    connection, _, exchange, free = open_exchange()
    connection.data_received(
        b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"a": 1}'
    )
    connection.connection_lost(None)
    assert exchange.events == [b'{"a": 1}']
    assert exchange.ends == ["ended"]
    assert not free


def test_another_status_is_told_with_the_beginning_of_its_body() -> None:
    connection, _, exchange, free = open_exchange()
    body = b"no" * 10_000
    head = b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n" % len(body)
    connection.data_received(head + body)
    ((status, reason),) = exchange.ends
    assert status == 503 and body.startswith(reason) and len(reason) < 5000
    assert free == [connection]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00\x01 garbage\r\n\r\n", "sent a response that is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * (http.MOST_HEAD + 1), "sent a head of more than"),
        (chunked(b"data: " + b"a" * (http.MOST_LINE + 1)), "sent a line of more than"),
    ],
    ids=["garbage", "endless head", "endless line"],
)
def test_what_no_server_should_send_ends_the_exchange_and_the_connection(
    data: bytes, why: str
) -> None:
    connection, wire, exchange, free = open_exchange()
    for start in range(0, len(data), 65_536):
        connection.data_received(data[start : start + 65_536])
    ((reason, any_data),) = exchange.ends
    assert reason.startswith(why) and any_data
    assert wire.aborted and not free and not connection.usable


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", ("closed the connection without an answer", False)),
        (b"HTTP/1.1 200 OK\r\n", ("closed the connection in the middle of an answer", True)),
        (chunked(b"data: {}\n\n")[:-5], ("closed the connection in the middle of an answer", True)),
    ],
    ids=["at once", "in the head", "in the body"],
)
def test_a_connection_that_is_lost_is_told_once(data: bytes, why: object) -> None:
    connection, _, exchange, _ = open_exchange()
    if data:
        connection.data_received(data)
    connection.connection_lost(ConnectionResetError())
    assert exchange.ends == [why]


@given(st.binary(max_size=300), st.lists(st.integers(1, 300), max_size=5))
def test_no_bytes_make_it_raise_or_end_twice(data: bytes, cuts: list[int]) -> None:
    connection, _, exchange, _ = open_exchange()
    edges = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    for start, stop in pairwise(edges):
        if start < stop:
            connection.data_received(data[start:stop])
    connection.connection_lost(None)
    assert len(exchange.ends) == 1
