"""The socket between driver and replica lets nobody in without the key."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from mlperf_suite.engines.link import Link
from mlperf_suite.engines.messages import Answer, AskBeat, from_worker, to_worker
from mlperf_suite.engines.replicas.handshake import accept, connect, listen, new_key


@pytest.fixture
def server() -> Iterator[socket.socket]:
    peers = listen("127.0.0.1")
    yield peers
    peers.close()


def accept_driver(server: socket.socket, key: bytes) -> list[socket.socket]:
    """The driver's connection, in a list that is filled once it is there."""
    peers: list[socket.socket] = []

    def wait() -> None:
        # Closed where the driver never comes.
        with contextlib.suppress(OSError):
            peers.append(accept(server, key))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    found_thread.append(thread)
    return peers


found_thread: list[threading.Thread] = []


def test_both_ends_hear_each_other(server: socket.socket) -> None:
    key = new_key()
    peers = accept_driver(server, key)
    driver_link = Link(connect("127.0.0.1", server.getsockname()[1], key))
    found_thread.pop().join(10)
    replica = Link(peers[0])
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


def test_it_listens_on_its_address_alone(server: socket.socket) -> None:
    assert server.getsockname()[0] == "127.0.0.1"


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
        mirror.settimeout(10)
        mirror.sendall(mirror.recv(32))
        mirror.sendall(mirror.recv(32))
        assert mirror.recv(1) == b""
    assert peers == []
    driver_link = connect("127.0.0.1", port, key)
    found_thread.pop().join(10)
    assert len(peers) == 1
    driver_link.close()
    peers[0].close()


def test_a_replica_without_the_key_is_found_out() -> None:
    server, key = listen("127.0.0.1"), new_key()
    peers = accept_driver(server, new_key())
    with pytest.raises(OSError, match=r"closed the connection|does not know the key|reset"):
        connect("127.0.0.1", server.getsockname()[1], key)
    assert peers == []
    server.close()
    found_thread.pop()
