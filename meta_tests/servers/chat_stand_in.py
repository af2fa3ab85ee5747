"""A chat server in this process, whose stream a test writes as it likes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

Events = Iterable[dict[str, Any]]
"""What a server answers with, one event each; it may never end."""


def delta(**fields: Any) -> dict[str, Any]:
    """An event with a piece of the answer."""
    return {"choices": [{"index": 0, "delta": fields}]}


def call_piece(index: int, arguments: str, name: str | None = None) -> dict[str, Any]:
    """An event with a piece of a tool call; its first has the name."""
    function = {"arguments": arguments} | ({"name": name} if name else {})
    head = {"id": f"call-{index}"} if name else {}
    return delta(tool_calls=[{"index": index, **head, "function": function}])


def last(reason: str = "stop", prompt: int = 7, tokens: int = 3) -> list[dict[str, Any]]:
    """The last events: why it ended, and the usage."""
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens}
    ended = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    return [ended, {"choices": [], "usage": usage}]


class ChatStandIn:
    """`bodies`: the requests so far. `closed`: connections that the client closed meanwhile."""

    def __init__(self, answer: Callable[[dict[str, Any]], Events], pause_s: float) -> None:
        self._answer, self._pause_s = answer, pause_s
        self.bodies: list[dict[str, Any]] = []
        self.closed = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                await self._reply(await _body(reader), writer)

    async def _reply(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.bodies.append(body)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for event in self._answer(body):
                _write(writer, b"data: " + json.dumps(event).encode() + b"\n\n")
                await writer.drain()
                await asyncio.sleep(self._pause_s)
            _write(writer, b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            self.closed += 1
            raise asyncio.IncompleteReadError(b"", None) from None


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def _body(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    body: dict[str, Any] = json.loads(await reader.readexactly(length))
    return body


@contextlib.asynccontextmanager
async def chat_stand_in(
    answer: Callable[[dict[str, Any]], Events], *, pause_s: float = 0.0
) -> AsyncIterator[ChatStandIn]:
    """A chat server on a free port until the context ends, whose events come `pause_s` apart."""
    stand_in = ChatStandIn(answer, pause_s)
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0, limit=2**26)
    stand_in.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stand_in
    finally:
        server.close()


def same(events: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], Events]:
    """The same answer to each request."""
    return lambda body: events
