"""HTTP as servers speak it, in pieces of any size, and what is none of it."""

import pytest

from meta_tests.features.servers.wire import REQUESTS, Exchange, open_exchange, sent_by
from mlperf_suite.features.servers import connection as http
from mlperf_suite.features.servers.adapters import ADAPTERS, PartialAnswer


def chunked(*parts: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" + (
        b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"
    )


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def answer_from(pieces: list[bytes], kind: str) -> tuple[PartialAnswer, Exchange]:
    connection, _, exchange, _ = open_exchange()
    for piece in filter(None, pieces):
        connection.data_received(piece)
    answer = PartialAnswer()
    for event in exchange.events:
        ADAPTERS[kind].read(event, answer)
    return answer, exchange


EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </style>\r\n\r\n"
ODD = {
    "comments": b": ping\r\n\r\ndata: %s\r\n\r\n",
    "CR": b"data: %s\r\r",
    "one line end": b"data: %s\n",
    "two lines": b"data: %s\r\n\r\n",
}


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("form", ODD.values(), ids=ODD)
def test_an_odd_but_legal_answer_is_the_same_split_at_every_byte(form: bytes, kind: str) -> None:
    """After another status, with a byte-order mark, and null for no choices."""
    usual, exchange = answer_from([sent_by(kind, None)], kind)
    events = [event.replace(b'"choices":[]', b'"choices":null') for event in exchange.events]
    if form == ODD["two lines"]:
        events = [event.replace(b",", b",\r\ndata:", 1) for event in events]
    first, *later = (form % event for event in (*events, b"[DONE]"))
    odd = EARLY + chunked(b"\xef\xbb\xbf" + first, *later)
    single = [odd[i : i + 1] for i in range(len(odd))]
    for pieces in (single, *([odd[:i], odd[i:]] for i in range(len(odd)))):
        answer, exchange = answer_from(pieces, kind)
        assert vars(answer) == vars(usual)
        assert exchange.ends == ["ended"]


def test_an_event_without_its_empty_line_does_not_wait_for_the_next() -> None:
    connection, _, exchange, _ = open_exchange()
    connection.data_received(chunked(b"data: {}\n")[:-5])
    assert exchange.events == [b"{}"] and not exchange.ends


@pytest.mark.parametrize(
    "data",
    [
        WHOLE.replace(b"Content-Type", b"Connection: close\r\nX") % 2 + b"{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}",
    ],
    ids=["the server says so", "no last line end, nor a length"],
)
def test_a_connection_that_ends_with_its_answer_is_not_used_again(data: bytes) -> None:
    connection, wire, exchange, free = open_exchange()
    connection.data_received(data)
    assert wire.aborted or not exchange.ends
    connection.connection_lost(None)
    assert (exchange.events, exchange.ends) == ([b"{}"], ["ended"])
    assert not free and not connection.usable


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x00\x01 garbage\r\n\r\n", "sent a response that is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * (http.MAX_HEAD_BYTES + 1), "sent a head of more than"),
        (chunked(b"data: " + b"a" * (http.MAX_LINE_BYTES + 1)), "sent a line of more than"),
        (chunked(*[b"data: " + b"a" * 999 + b"\n"] * 1100), "sent an event of more than"),
        (
            WHOLE % (http.MAX_BODY_BYTES + 1) + b"a" * (http.MAX_BODY_BYTES + 1),
            "sent an answer of more",
        ),
    ],
    ids=["garbage", "endless head", "endless line", "endless event", "endless whole"],
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
