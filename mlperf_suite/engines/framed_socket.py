"""The socket between the driver and a worker: how a replica's is opened, and frames of MessagePack.

A frame is a length of four bytes, big-endian, followed by a message or a list of messages. Driver
and replica first prove to each other that they have the key, which is random, made for one run, and
never sent. It does not encrypt: what follows is as open on the network as Ray's own messages are.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator

import msgspec

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()
_RANDOM, _MAC = 32, 32
STUCK_S = 20.0
_PATIENCE_S = 5.0
"""How long the other end may take to answer a challenge, in s: it answers at once."""
_DRIVER, _REPLICA = b"driver", b"replica"


def frame(message: object) -> bytes:
    """Encode a message, or a list of them, for sending."""
    content = _encoder.encode(message)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The contents of the frames that this data completes."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            yield bytes(buffer[start + _LENGTH.size : end])
            start = end
        del buffer[:start]


class Link:
    """One end of an open connection; any thread may send."""

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self.frames = Frames()
        self._queue: deque[object] = deque()
        self._unsent = b""
        self._sending = threading.Lock()

    def put(self, message: object) -> None:
        """Queue a message, or a list of messages, for `flush`; returns at once."""
        self._queue.append(message)

    def flush(self, *, wait: bool = True) -> None:
        """Send what is queued, in order. Without `wait`, only what the other end takes at once, and
        nothing if another thread is sending. Raises OSError if the other end is gone."""
        if not self._sending.acquire(blocking=wait):
            return
        try:
            while self._unsent or self._queue:
                self._unsent = self._unsent or frame(self._queue.popleft())
                if not wait and not self._send_some():
                    return
                if wait:
                    self.socket.sendall(self._unsent)
                    self._unsent = b""
        except OSError:
            # Part of a frame may have been sent: nothing after it could be read.
            self.end()
            raise
        finally:
            self._sending.release()

    def _send_some(self) -> bool:
        """Send as much as the other end takes at once; whether that was anything."""
        try:
            size = self.socket.send(self._unsent, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        self._unsent = self._unsent[size:]
        return True

    def send(self, message: object) -> None:
        """Send a message or a list of messages. Raises OSError if the other end is gone."""
        self.put(message)
        self.flush()

    def end(self) -> None:
        """Shut the connection down, so that both ends notice when they read or write."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Shut it down and close the socket; nobody may read from it any more."""
        self.end()
        self.socket.close()


def new_key() -> bytes:
    """Make a random key for one run."""
    return os.urandom(32)


def _receive(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise ConnectionError("the other end closed the connection")
        data += piece
    return data


def _greet(peer: socket.socket, key: bytes, own_role: bytes, peer_role: bytes) -> None:
    """Prove that this end has the key and check that the other has it. Raises OSError if not.

    The roles differ, so that nobody passes by echoing what it was sent.
    """
    peer.settimeout(_PATIENCE_S)
    challenge = os.urandom(_RANDOM)
    peer.sendall(challenge)
    peer_challenge = _receive(peer, _RANDOM)
    peer.sendall(_mac(key, own_role, peer_challenge, challenge))
    proof = _receive(peer, _MAC)
    if not hmac.compare_digest(proof, _mac(key, peer_role, challenge, peer_challenge)):
        raise ConnectionError("the other end does not know the key")
    peer.settimeout(None)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _mac(key: bytes, role: bytes, challenge: bytes, own: bytes) -> bytes:
    return hmac.new(key, role + challenge + own, hashlib.sha256).digest()


def listen(address: str) -> socket.socket:
    """A replica's socket that waits for the driver, on this address only. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family, backlog=4)


def accept(server: socket.socket, key: bytes) -> socket.socket:
    """Return the driver's connection; any other peer is turned away.

    Raises OSError once `server` is closed.
    """
    while True:
        peer, _ = server.accept()
        try:
            _greet(peer, key, _REPLICA, _DRIVER)
        except OSError:
            peer.close()
        else:
            return peer


def connect(address: str, port: int, key: bytes) -> socket.socket:
    """Open the driver's connection to a replica. Raises OSError.

    Sending fails if the replica takes no byte of a message for `STUCK_S`.
    """
    peer = socket.create_connection((address, port), _PATIENCE_S)
    try:
        _greet(peer, key, _DRIVER, _REPLICA)
        # Python's own timeout would also apply to reading.
        limit = struct.pack("ll", int(STUCK_S), 0)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    except OSError:
        peer.close()
        raise
    return peer
