"""Driver and replica hear each other, and nobody gets in without the key."""

import contextlib
import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from mlperf_suite.engines.framed_socket import FramedSocket
from mlperf_suite.features.replicas import handshake
from mlperf_suite.features.replicas.handshake import accept, connect, listen, new_key


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.setattr(handshake, "_PATIENCE_S", 120.0)
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
    monkeypatch.setattr(handshake, "STUCK_S", 1.0)
    key = new_key()
    peers = accept_driver(server, key)
    driver_link = FramedSocket(connect("127.0.0.1", server.getsockname()[1], key))
    peer = FramedSocket(peers.get(timeout=120))
    with pytest.raises(OSError):
        driver_link.send(b"x" * 50_000_000)
    driver_link.socket.settimeout(120)
    # The part that went out is no message: whoever reads here hears that the link ended.
    assert driver_link.socket.recv(1) == b""
    driver_link.close()
    peer.close()
