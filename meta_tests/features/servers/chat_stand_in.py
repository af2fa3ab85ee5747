"""A chat server in this process, whose stream a test writes as it likes."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from meta_tests.features.servers.replies import Refusal

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
    """`bodies`: the requests so far. `closed`: connections that the client closed meanwhile.
    `pages`: what it answers to GET, by path; anything else is not found."""

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], Events],
        pause_s: float,
        pages: Mapping[str, Callable[[], str]],
    ) -> None:
        self._answer, self._pause_s, self._pages = answer, pause_s, pages
        self.bodies: list[dict[str, Any]] = []
        self.closed = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                path, body = await _request(reader)
                if body is not None and path.endswith("/chat/completions"):
                    await self._reply(body, writer)
                else:
                    await self._show(path, writer)

    async def _show(self, path: str, writer: asyncio.StreamWriter) -> None:
        page = self._pages.get(path)
        _whole(writer, 200 if page else 404, page() if page else "not found")
        await writer.drain()

    async def _reply(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.bodies.append(body)
        try:
            events = self._answer(body)
        except Refusal as error:
            _whole(writer, error.status, json.dumps({"error": {"message": str(error)}}))
            return await writer.drain()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for event in events:
                _write(writer, b"data: " + json.dumps(event).encode() + b"\n\n")
                await writer.drain()
                await asyncio.sleep(self._pause_s)
            _write(writer, b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            self.closed += 1
            raise asyncio.IncompleteReadError(b"", None) from None


def _whole(writer: asyncio.StreamWriter, status: int, page: str) -> None:
    text = page.encode()
    head = b"HTTP/1.1 %d Status\r\nContent-Length: %d\r\n\r\n" % (status, len(text))
    writer.write(head + text)


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, Any] | None]:
    """The path of a request, and its body as JSON; None for one without a body."""
    head = await reader.readuntil(b"\r\n\r\n")
    path = head.split(b" ", 2)[1].decode()
    lengths = [
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    return path, json.loads(await reader.readexactly(lengths[0])) if lengths else None


@contextlib.asynccontextmanager
async def chat_stand_in(
    answer: Callable[[dict[str, Any]], Events],
    *,
    pause_s: float = 0.0,
    pages: Mapping[str, Callable[[], str]] | None = None,
) -> AsyncIterator[ChatStandIn]:
    """A chat server on a free port until the context ends, whose events come `pause_s` apart."""
    stand_in = ChatStandIn(answer, pause_s, pages or {})
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0, limit=2**26)
    stand_in.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stand_in
    finally:
        server.close()


def same(events: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], Events]:
    """The same answer to each request."""
    return lambda body: events


@contextlib.contextmanager
def chat_server(
    answer: Callable[[dict[str, Any]], Events],
    pages: Mapping[str, Callable[[], str]] | None = None,
    *,
    pause_s: float = 0.0,
) -> Iterator[ChatStandIn]:
    """The same on a thread of its own, for a client that runs its own loop or waits for it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    context = chat_stand_in(answer, pages=pages, pause_s=pause_s)

    async def end() -> None:
        await context.__aexit__(None, None, None)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
