"""A connection without a network, and the bytes of a stand-in server's answers on it."""

import asyncio
from typing import Any

from meta_tests.features.servers.replies import CompletionRequest, reply
from meta_tests.features.servers.stand_in_options import StandIn
from mlperf_suite.features.servers.connection import Connection


class Wire(asyncio.Transport):
    """A transport without a network."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def abort(self) -> None:
        self.aborted = True


class Exchange:
    """An exchange that remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.ends: list[Any] = []

    def on_event(self, data: bytes, arrived: float) -> None:
        self.events.append(data)

    def on_error(self, data: bytes) -> None:
        self.ends.append(("error", data))

    def on_end(self, arrived: float) -> None:
        self.ends.append("ended")

    def on_refusal(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.ends.append((status, body))

    def on_loss(self, why: str, any_data: bool) -> None:
        self.ends.append((why, any_data))


def open_exchange() -> tuple[Connection, Wire, Exchange, list[Connection]]:
    free: list[Connection] = []
    connection, wire, exchange = Connection(free.append, lambda lost: None), Wire(), Exchange()
    connection.connection_made(wire)
    connection.send(b"POST / HTTP/1.1\r\n\r\n", exchange)
    return connection, wire, exchange, free


REQUESTS = {
    "vllm": CompletionRequest((1, 2), 3, 1, stream=True, ids=True, usage=True),
    "sglang": CompletionRequest((1, 2), 3, 1, stream=True, ids=True, usage=True, native=True),
    "text": CompletionRequest("a b", 3, 1, stream=True, ids=False, usage=True),
}


def sent_by(kind: Any, fault: Any) -> bytes:
    """The bytes of the stand-in server's answer."""
    options = StandIn(dialect=kind, chunk_tokens=1, tokens=2, redirect_to="http://elsewhere")
    content = reply(options, REQUESTS[kind], fault)
    return content.head + b"".join(content.parts)
