"""A stream of a server is read alike however it is cut."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from meta_tests.features.servers.wire import open_exchange


def chunked(*parts: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" + (
        b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"
    )


EVENTS = [b'{"a": 1}', b'{"b": "\xc3\xa9"}', b'{"c": 3}']


@given(
    st.lists(st.integers(1, 400), max_size=12),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.booleans(),
)
@example(cuts=list(range(1, 400)), end=b"\r\n", split=True)
def test_a_stream_is_the_same_however_it_is_cut(cuts: list[int], end: bytes, split: bool) -> None:
    lines = [event.split(b" ") if split else [event] for event in EVENTS]
    events = b"".join(b"".join(b"data: " + x + end for x in event) + end for event in lines)
    whole = chunked(b": a comment\n\n", events[:20], events[20:], b"data: [DONE]" + end)
    connection, wire, exchange, free = open_exchange()
    edges = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    for start, stop in pairwise(edges):
        connection.data_received(whole[start:stop])
    assert [event.replace(b"\n", b" ") for event in exchange.events] == EVENTS
    assert exchange.ends == ["ended"]
    assert free == [connection] and connection.usable and not wire.aborted


@given(st.binary(max_size=300), st.lists(st.integers(1, 300), max_size=5))
def test_no_bytes_make_it_raise_or_end_twice(data: bytes, cuts: list[int]) -> None:
    connection, _, exchange, _ = open_exchange()
    edges = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    for start, stop in pairwise(edges):
        if start < stop:
            connection.data_received(data[start:stop])
    connection.connection_lost(None)
    assert len(exchange.ends) == 1
