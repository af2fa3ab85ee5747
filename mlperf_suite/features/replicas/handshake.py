"""How the connection between the driver and a replica is opened.

Both first prove to each other that they have the key, which is random, made for one run, and never
sent. It does not encrypt: later messages are as open on the network as Ray's own messages are.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct

_RANDOM, _MAC = 32, 32
STUCK_S = 20.0
_PATIENCE_S = 5.0
"""How long the other end may take to answer a challenge, in s: it answers at once."""
_DRIVER, _REPLICA = b"driver", b"replica"


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
