"""Messages on a socket: frames of MessagePack.

A frame is four bytes of length, big-endian, and a message or a list of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()


def frame(message: object) -> bytes:
    """A message, or a list of them, as it is sent."""
    content = _encoder.encode(message)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The contents of the frames that are whole with this data."""
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
