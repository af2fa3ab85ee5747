"""A server that answers, refuses and closes its connections as a script says."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

PIECE = b'{"model": "m", "choices": [{"token_ids": [5], "text": "a", "finish_reason": "stop"}]}'
CHAT_EVENT = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"


class Server:
    """Answers the requests in the order in which they come as `script` says of each: "answer",
    "close" (without a byte), "begin" (closed after the first bytes), "linger" (a stream whose body
    goes on after its end)."""

    def __init__(self, script: Sequence[str]) -> None:
        self.script = script
        self.seen: list[tuple[int, float]] = []
        """Of each request, the number of its connection and when it was there."""
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                await reader.readexactly(length)
                self.seen.append((number, time.monotonic()))
                action = self.script[len(self.seen) - 1]
                if action == "close":
                    return
                if action == "begin":
                    writer.write(b"HTTP/1.1")
                    return
                if action == "linger":
                    stream = b"data: %b\n\ndata: [DONE]\n\n" % PIECE
                    writer.write(CHUNKED + b"%x\r\n%b\r\n" % (len(stream), stream))
                elif b"/chat/" in head:
                    writer.write(HEAD % (b"text/event-stream", len(CHAT_EVENT)) + CHAT_EVENT)
                else:
                    writer.write(HEAD % (b"application/json", len(PIECE)) + PIECE)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def scripted(script: Sequence[str]) -> AsyncIterator[tuple[Server, int]]:
    """The server and its port."""
    server = Server(script)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        yield server, listening.sockets[0].getsockname()[1]
