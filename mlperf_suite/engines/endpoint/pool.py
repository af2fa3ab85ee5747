"""The connections of a client process to one server: reused, limited, some kept in reserve."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from typing import Protocol

from mlperf_suite.engines.endpoint.connection import Connection
from mlperf_suite.engines.endpoint.messages import Hello, Place
from mlperf_suite.engines.endpoint.unreachable import why_unreachable

CONNECT_S = 10.0
"""How long opening a connection may take, in s."""
_FRESH_S = 2.0
"""How long a connection may have been idle and still be reused, in s: uvicorn, which most of these
servers run on, closes one after 5 s, and a request sent at that moment is lost."""
_SPARE = 4
"""Idle connections kept open per place while there is work, so that a new query need not wait for
one."""
_OPENING = 64
"""Connections to a place that may be opening at once: a server's listen queue is finite."""


class Seeker(Protocol):
    """A request that wants a connection. `opened_s`: how long opening one for it took, in s."""

    opened_s: float

    @property
    def is_over(self) -> bool:
        """Whether it no longer wants a connection."""

    def begin(self, connection: Connection) -> None:
        """Send on this connection now."""

    def fail(self, why: str, *, gone: bool) -> None:
        """No connection can be opened."""


class Pool:
    """The connections to one place."""

    def __init__(
        self, place: Place, hello: Hello, context: ssl.SSLContext | None, limit: int
    ) -> None:
        self._place = place
        self._context = context if place.tls else None
        self._limit = limit
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening = 0
        self._most_open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.waiting: deque[Seeker] = deque()
        lines = {
            "Host": place.authority,
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "User-Agent": "mlperf-suite",
            **({"Authorization": f"Bearer {hello.key}"} if hello.key else {}),
            **hello.headers,
        }
        self._lines = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode()

    def head(self, path: str, length: int) -> bytes:
        """A request's head, for a body of `length` bytes."""
        line = f"POST {self._place.prefix}{path} HTTP/1.1\r\n".encode()
        return b"%s%sContent-Length: %d\r\n\r\n" % (line, self._lines, length)

    def take_most_open(self) -> int:
        """The most connections that were open at once since the last call."""
        most, self._most_open = self._most_open, len(self._open)
        return max(most, len(self._open))

    def acquire(self, exchange: Seeker) -> None:
        """Give it a connection, now or as soon as there is one."""
        if exchange.is_over:
            return
        connection = self._fresh()
        if connection is not None:
            exchange.begin(connection)
        else:
            self.waiting.append(exchange)
        self._open_more()

    def _fresh(self) -> Connection | None:
        now = time.monotonic()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < _FRESH_S:
                return connection
            connection.close()
        return None

    def release(self, connection: Connection) -> None:
        """Take back a connection that can be used again."""
        while self.waiting:
            exchange = self.waiting.popleft()
            if not exchange.is_over:
                exchange.begin(connection)
                return
        self._idle.append(connection)

    def close_idle(self) -> None:
        """Use none of the idle connections again."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _open_more(self) -> None:
        wanted = len(self.waiting) + _SPARE - len(self._idle)
        room = min(self._limit - len(self._open) - self._opening, _OPENING - self._opening)
        for _ in range(min(wanted - self._opening, room)):
            self._opening += 1
            task = asyncio.get_running_loop().create_task(self._connect())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        started, place = time.monotonic(), self._place
        named = place.host if self._context is not None else None
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self.release, self._lost),
                    place.address,
                    place.port,
                    ssl=self._context,
                    server_hostname=named,
                )
        except (OSError, TimeoutError) as error:
            self._opening -= 1
            self._cannot_open(why_unreachable(error, CONNECT_S))
            return
        self._opening -= 1
        self._open.add(connection)
        self._most_open = max(self._most_open, len(self._open))
        if self.waiting:
            self.waiting[0].opened_s = time.monotonic() - started
        self.release(connection)
        if self.waiting:
            self._open_more()

    def _cannot_open(self, why: str) -> None:
        """Fail all waiting requests, which would meet the same error."""
        waiting = list(self.waiting)
        self.waiting.clear()
        for exchange in waiting:
            exchange.fail(why, gone=True)

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self.waiting:
            self._open_more()
