"""The socket between the driver and a worker, which carries frames of MessagePack.

A frame is a length of four bytes, big-endian, followed by a message or a list of messages.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator

import msgspec

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()


def frame(message: object) -> bytes:
    """Encode a message, or a list of them, for sending."""
    content = _encoder.encode(message)
    return _LENGTH.pack(len(content)) + content


class FrameDecoder:
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


class FramedSocket:
    """One end of an open connection; any thread may send."""

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self.frames = FrameDecoder()
        self._queue: deque[object] = deque()
        self._unsent = b""
        self._sending = threading.Lock()

    def put(self, message: object) -> None:
        """Queue a message, or a list of messages, for `flush`; returns at once."""
        self._queue.append(message)

    def flush(self, *, wait: bool = True) -> None:
        """Send the queue, in order. Without `wait`, only what the other end takes at once, and
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
