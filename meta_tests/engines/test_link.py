"""What is sent arrives whole and in order, and nobody gets in without the key."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines import framed_socket as links
from mlperf_suite.engines.framed_socket import Frames, Link, accept, connect, frame, listen, new_key
from mlperf_suite.engines.messages import (
    Answer,
    AskBeat,
    Drop,
    Failure,
    ServerFirstTokens,
    from_worker,
    to_worker,
)

messages = st.lists(
    st.builds(
        ServerFirstTokens, st.integers(0, 2**40), st.lists(st.integers(0, 2**31)), st.floats(0, 1e9)
    )
    | st.builds(Failure, st.integers(0, 2**40), st.text(), st.booleans()),
    min_size=1,
)


@given(st.lists(messages, max_size=5), st.integers(1, 50))
def test_messages_arrive_as_they_were_sent_in_pieces_of_any_size(
    batches: list[list[ServerFirstTokens | Failure]], size: int
) -> None:
    stream, frames = b"".join(map(frame, batches)), Frames()
    batches_read = []
    for start in range(0, len(stream), size):
        batches_read += [from_worker.decode(c) for c in frames.feed(stream[start : start + size])]
    assert batches_read == batches


def test_an_end_that_takes_nothing_holds_up_nobody_who_does_not_wait() -> None:
    own_end, peer_end = socket.socketpair()
    link, peer = Link(own_end), Link(peer_end)
    failures = [Failure(number, "x" * 100_000, False) for number in range(40)]
    for failure in failures[:20]:
        link.put(failure)
    link.flush(wait=False)
    for failure in failures[20:]:
        link.put(failure)
    sender = threading.Thread(target=link.flush, daemon=True)
    sender.start()
    while not link._sending.locked():
        """The thread waits for the other end soon."""
    link.flush(wait=False)
    taken: list[Failure] = []
    while len(taken) < len(failures):
        for content in peer.frames.feed(peer.socket.recv(1 << 20)):
            taken.append(msgspec.msgpack.decode(content, type=Failure))
    sender.join(60)
    assert taken == failures and not sender.is_alive()
    link.close()
    peer.close()


def test_messages_are_sent_in_the_order_in_which_they_were_queued() -> None:
    own_end, peer_end = socket.socketpair()
    link, peer = Link(own_end), Link(peer_end)
    link.put(AskBeat(1))
    link.put(Drop())
    link.send(AskBeat(2))
    contents = [to_worker.decode(content) for content in peer.frames.feed(peer_end.recv(1000))]
    assert contents == [AskBeat(1), Drop(), AskBeat(2)]
    peer.close()
    with pytest.raises(OSError, match="Broken pipe"):
        link.send(Drop())
    link.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.setattr(links, "_PATIENCE_S", 120.0)
    with listen("127.0.0.1") as peers:
        yield peers


def accept_driver(server: socket.socket, key: bytes) -> queue.SimpleQueue[socket.socket]:
    """The driver's connection, once it is there."""
    peers: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()

    def wait() -> None:
        # Closed where the driver never comes.
        with contextlib.suppress(OSError):
            peers.put(accept(server, key))

    threading.Thread(target=wait, daemon=True).start()
    return peers


def test_both_ends_hear_each_other(server: socket.socket) -> None:
    assert server.getsockname()[0] == "127.0.0.1"
    key = new_key()
    peers = accept_driver(server, key)
    driver_link = Link(connect("127.0.0.1", server.getsockname()[1], key))
    replica = Link(peers.get(timeout=120))
    driver_link.send(AskBeat(15))
    (content,) = replica.frames.feed(replica.socket.recv(1000))
    assert to_worker.decode(content) == AskBeat(15)
    replica.send([Answer(3, b"1234"), Answer(4, b"")])
    (content,) = driver_link.frames.feed(driver_link.socket.recv(1000))
    assert from_worker.decode(content) == [Answer(3, b"1234"), Answer(4, b"")]
    replica.end()
    assert driver_link.socket.recv(1) == b""
    driver_link.close()
    replica.close()


def test_whoever_has_another_key_is_turned_away_and_the_driver_still_gets_in(
    server: socket.socket,
) -> None:
    key, port = new_key(), server.getsockname()[1]
    peers = accept_driver(server, key)
    with pytest.raises(OSError, match=r"closed the connection|does not know the key|reset"):
        connect("127.0.0.1", port, new_key())
    # Neither does one that says nothing and goes.
    socket.create_connection(("127.0.0.1", port)).close()
    # Nor one that sends back what it is sent.
    with socket.create_connection(("127.0.0.1", port)) as mirror:
        mirror.settimeout(120)
        mirror.sendall(mirror.recv(32))
        mirror.sendall(mirror.recv(32))
        assert mirror.recv(1) == b""
    assert peers.empty()
    with connect("127.0.0.1", port, key), peers.get(timeout=120):
        assert peers.empty()


def test_a_replica_that_takes_no_byte_is_given_up(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "STUCK_S", 1.0)
    key = new_key()
    peers = accept_driver(server, key)
    driver_link = Link(connect("127.0.0.1", server.getsockname()[1], key))
    peer = Link(peers.get(timeout=120))
    with pytest.raises(OSError):
        driver_link.send(b"x" * 50_000_000)
    driver_link.socket.settimeout(120)
    # The part that went out is no message: whoever reads here hears that the link ended.
    assert driver_link.socket.recv(1) == b""
    driver_link.close()
    peer.close()
