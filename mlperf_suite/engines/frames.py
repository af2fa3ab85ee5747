"""Messages on a socket: frames of MessagePack.

A frame is a length of four bytes, big-endian, followed by a message or a list of messages.
"""

from __future__ import annotations

import selectors
import struct
from collections.abc import Callable, Iterator, Sequence
from socket import socket

import msgspec

_LENGTH = struct.Struct(">I")
_PIECE = 1 << 20
"""The most bytes read from a socket at once."""
_encoder = msgspec.msgpack.Encoder()


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


def hear(
    sockets: Sequence[socket],
    tick_s: float,
    *,
    until: Callable[[], bool],
    heard: Callable[[int, bytes], None],
    lost: Callable[[int], None],
    looked: Callable[[], None],
) -> None:
    """Read several sockets on this thread.

    `heard` gets a socket's index and the data it sent, `lost` the index of a socket that ended,
    once. `looked` is called after each look, at least every `tick_s` seconds; then `until` says
    whether to stop. Exceptions of these callbacks are passed on.
    """
    with selectors.DefaultSelector() as selector:
        for place, one in enumerate(sockets):
            selector.register(one, selectors.EVENT_READ, place)
        while not until():
            for key, _ in selector.select(tick_s):
                try:
                    data = sockets[key.data].recv(_PIECE)
                except OSError:
                    data = b""
                if data:
                    heard(key.data, data)
                else:
                    selector.unregister(key.fileobj)
                    lost(key.data)
            looked()
