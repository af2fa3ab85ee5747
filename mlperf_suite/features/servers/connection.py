"""HTTP/1.1 connections on httptools and the event loop, one exchange at a time on each.

A client process keeps a pool of them for each server. A connection follows no redirects and uses no
proxy. A request on a kept connection that the server had closed is sent again, once, on a new one.
A stream ends with `[DONE]`; its connection can be used again once the response's body has ended.
The sizes of a response's head, a line of a stream and a whole answer are limited.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol, cast

import httptools
import msgspec

from mlperf_suite.engines.messages import ServerAddress
from mlperf_suite.features.servers.adapters import error_line, one_line
from mlperf_suite.features.servers.config import Target

MAX_HEAD_BYTES = 64 * 1024
MAX_LINE_BYTES = 1_000_000
"""The most bytes a server may send as a response's head, and as one line of a stream."""
MAX_BODY_BYTES = 32_000_000
"""The most bytes of an answer that comes in one piece."""
_MAX_ERROR_BYTES = 4096
_OK = 200
_DONE = b"[DONE]"
_NO_EVENTS = (b"", _DONE)
_BOM = b"\xef\xbb\xbf"
_PLAIN = (b"", b"identity", b"chunked")
"""The codings that leave an answer's bytes as they are."""

_TLS_ALERT = b"\x15\x03"
"""With which a TLS server answers other bytes than TLS (RFC 8446, 5.1)."""
_PLAIN_HTTP = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
"""OpenSSL's reasons where a server answers TLS with HTTP."""
_OTHER_HOST = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH (x509_vfy.h)."""

CONNECT_S = 10.0
"""How long opening a connection may take, in s."""
_BODY_END_S = 0.1
"""How long a response's body may go on after `[DONE]`, in s, before its connection is closed: its
end is usually the next packet."""
_FRESH_S = 2.0
"""How long a connection may have been idle and still be reused, in s: uvicorn, which most of these
servers run on, closes one after 5 s, and a request sent at that moment is lost."""
_SPARE = 4
"""Idle connections kept open per place while there is work, so that a new query need not wait for
one."""
_OPENING = 64
"""Connections to a place that may be opening at once: a server's listen queue is finite."""

_json = msgspec.json.Decoder(msgspec.Raw)


_MAX_FILES, _FILES_LEFT = 65_536, 64
"""The most open files of a process, and how many of them it needs for something else."""


class ResponseHandler(Protocol):
    """A request that was sent; its connection calls these methods. Exactly one of the last three
    ends it; only after `on_end` may the connection be used again."""

    def on_event(self, data: bytes, arrived: float) -> None:
        """One event of a stream, or the whole answer if it is not a stream."""

    def on_error(self, data: bytes) -> None:
        """An event of a stream that the server itself calls an error."""

    def on_end(self, arrived: float) -> None:
        """The stream has ended, or the whole response is complete; with status 200."""

    def on_refusal(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        """The response is complete, with another status."""

    def on_loss(self, why: str, any_data: bool) -> None:
        """The connection was lost, or the response is not HTTP. `any_data`: whether any of it
        came."""


class Connection(asyncio.Protocol):
    """`on_free` is called when the connection can be reused, `on_lost` when it never can, and
    before either of them `on_late`, if a stream ended and the response did not yet."""

    def __init__(
        self,
        on_free: Callable[[Connection], None],
        on_lost: Callable[[Connection], None],
        on_late: Callable[[Connection], None] = lambda connection: None,
    ) -> None:
        self._on_free, self._on_lost, self._on_late = on_free, on_lost, on_late
        self._transport: asyncio.Transport | None = None
        self._handler: ResponseHandler | None = None
        self.idle_since = time.monotonic()
        self.kept = False
        """Whether it was kept after an exchange, or kept idle: the server may have closed it before
        it saw the next request."""
        self.streams = False
        """Whether the response is a stream of events rather than one whole answer."""
        self.headers: dict[bytes, bytes] = {}
        self._done = self._late = False
        self._closed = False
        # Of the event that a stream is in the middle of; empty at the end of each.
        self._between_events = True
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = b""
        self._after_cr = False

    # The exchange

    @property
    def usable(self) -> bool:
        """Whether a request can be sent on it."""
        is_open = not self._closed and self._transport is not None
        return is_open and self._handler is None and not self._late

    def send(self, data: bytes, handler: ResponseHandler) -> None:
        """Send a request whose head and body are `data`; nothing is sent on a connection that was
        lost."""
        assert self._transport is not None and self._handler is None
        self._handler = handler
        self._parser = httptools.HttpResponseParser(self)
        self.headers = {}
        self._head_size = 0
        self._status = 0
        self.streams = False
        self._buffer = bytearray()
        self._heard = self._done = False
        self._whole = self._keeps = False
        if not self._closed:
            self._transport.write(data)

    def close(self) -> None:
        """Close it; its exchange is not called again."""
        self._handler = None
        self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._transport is not None:
                self._transport.abort()

    def _fail(self, why: str) -> None:
        handler, self._handler = self._handler, None
        self._close()
        if handler is not None:
            handler.on_loss(why, self._heard)

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._handler is None and not self._late:
            # There is no request: a late message, or a server out of step.
            self._close()
            return
        self._heard = True
        self._arrived = time.monotonic()
        if not self._status:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("switched to another protocol")
        except httptools.HttpParserError as error:
            cause = error.__context__
            no_http = "speaks TLS: give its URL with https://"
            if not data.startswith(_TLS_ALERT):
                no_http = "sent a response that is not HTTP"
            self._fail(no_http if cause is None else str(cause))
        if not self._status and self._head_size > MAX_HEAD_BYTES:
            # The parser reports a header only once it is complete.
            self._fail(f"sent a head of more than {MAX_HEAD_BYTES:,} bytes")
        if self._whole:
            self._finish()
        elif self._done and self._handler is not None:
            self._late = True
            self._end()
            self._on_late(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        if self._handler is not None:
            chunked = b"chunked" in self.headers.get(b"transfer-encoding", b"").lower()
            framed = chunked or b"content-length" in self.headers
            if self._heard and self._status and not framed:
                # Without a length, the end of the connection ends the answer.
                self._finish()
            else:
                when = "in the middle of an answer" if self._heard else "without an answer"
                self._fail(f"closed the connection {when}")
        self._on_lost(self)

    # httptools' callbacks; an exception in one stops the parser

    def on_message_begin(self) -> None:
        if self._whole:
            raise _UnusableError("sent more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        kind = self.headers.get(b"content-type", b"").lower()
        self.streams = self._status == _OK and kind.startswith(b"text/event-stream")
        coded = b"content-encoding" in self.headers
        coded = coded or self.headers.get(b"transfer-encoding", b"") not in _PLAIN
        if coded and self._status == _OK and (coding := self._coding()):
            raise _UnusableError(
                f"compressed an answer with {coding}, although it was asked not to: turn that off"
            )

    def _coding(self) -> str:
        """How the server compressed the answer; empty if it did not."""
        names = [self.headers.get(n, b"") for n in (b"content-encoding", b"transfer-encoding")]
        codings = [coding.strip().lower() for coding in b",".join(names).split(b",")]
        return one_line(b", ".join(coding for coding in codings if coding not in _PLAIN))

    def on_body(self, data: bytes) -> None:
        if self._status != _OK:
            self._buffer += data[: max(0, _MAX_ERROR_BYTES - len(self._buffer))]
        elif not self.streams:
            self._buffer += data
            if len(self._buffer) > MAX_BODY_BYTES:
                raise _UnusableError(f"sent an answer of more than {MAX_BODY_BYTES:,} bytes")
        elif (
            self._between_events
            and data.startswith(b"data: {")
            and data.find(b"\n") == len(data) - 2
            and data.endswith(b"}\n\n")
            and b"\r" not in data
        ):
            # Nearly always a piece is one event of one line.
            if self._handler is not None:
                self._handler.on_event(data[6:-2], self._arrived)
        else:
            self._read_events(data)

    def _read_events(self, data: bytes) -> None:
        """Report the events that a piece of a stream completes."""
        whole = self._between_events and data.startswith(b"data: ") and data.endswith(b"\n\n")
        events = data[6:-2].split(b"\n\ndata: ") if whole and b"\r" not in data else []
        if not events or data.count(b"\n") != 2 * len(events):
            self._read_lines(data)
            pending = self._buffer or self._data or self._event or self._after_cr
            self._between_events = not pending
            return
        for event in events:
            # Each is one line.
            words = event.strip()
            self._done |= words == _DONE
            if words not in _NO_EVENTS and self._handler is not None:
                self._handler.on_event(event, self._arrived)

    def _read_lines(self, data: bytes) -> None:
        """Report each complete event. Lines end with LF, CR or both; an empty line ends an event.

        An event of one line is also complete if it is JSON already: some servers leave out the
        empty line, and a token must not wait for the next one.
        """
        if b"\r" in data or self._after_cr:
            data = self._with_lf(data)
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._buffer:
            lines[0] = bytes(self._buffer) + lines[0]
            self._buffer.clear()
        if rest:
            self._buffer += rest
            if len(self._buffer) > MAX_LINE_BYTES:
                raise _UnusableError(f"sent a line of more than {MAX_LINE_BYTES:,} bytes")
        for line in lines:
            if not line:
                self._report_lines()
            elif line.startswith(b"data:") and not self._data:
                self._data.append(line[5:].strip())
            else:
                self._read_field(line)
        if self._data:
            self._report_json()

    def _with_lf(self, data: bytes) -> bytes:
        """The data with LF as the only line end; a CR before it may have ended the same line."""
        rest = data.removeprefix(b"\n") if self._after_cr else data
        self._after_cr = data.endswith(b"\r")
        return rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.removeprefix(_BOM).partition(b":")
        if name == b"event":
            self._event = value.strip()
        elif name == b"data":
            self._report_json()
            self._data.append(value.strip())
            self._data_size += len(line)
            if self._data_size > MAX_LINE_BYTES:
                raise _UnusableError(f"sent an event of more than {MAX_LINE_BYTES:,} bytes")

    def _report_json(self) -> None:
        """Report an event of one line that is JSON already, or that ends the stream."""
        if len(self._data) == 1 and (self._data[0] == _DONE or is_json(self._data[0])):
            self._report_lines()

    def _report_lines(self) -> None:
        """Report the event whose lines came."""
        data, event = b"\n".join(self._data), self._event
        self._data.clear()
        self._data_size, self._event = 0, b""
        self._done |= data == _DONE
        if not data or data == _DONE or self._handler is None:
            return
        if event == b"error":
            self._handler.on_error(data)
        else:
            self._handler.on_event(data, self._arrived)

    def on_message_complete(self) -> None:
        if self._status >= _OK:
            self._whole = True
            self._keeps = self._parser.should_keep_alive()

    def _finish(self) -> None:
        """The response is complete."""
        if not self._between_events:
            try:
                # The last line and the last event may have no end.
                self._read_lines(b"\n\n")
            except _UnusableError as error:
                self._fail(str(error))
                return
        self._late = False
        self._end()
        if not self._keeps or self._closed:
            self._close()
            return
        self.kept = True
        self.idle_since = time.monotonic()
        self._on_free(self)

    def _end(self) -> None:
        """Tell the exchange that it is over."""
        handler, self._handler = self._handler, None
        if handler is not None and self._status != _OK:
            body = b"" if self._coding() else bytes(self._buffer)
            handler.on_refusal(self._status, self.headers, body)
        elif handler is not None:
            if not self.streams:
                handler.on_event(bytes(self._buffer).removeprefix(_BOM), self._arrived)
            handler.on_end(self._arrived)


class _UnusableError(Exception):
    """The server sent more than allowed, or something that this client does not read."""


def is_json(data: bytes) -> bool:
    """Whether the data is JSON."""
    try:
        _json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def header_lines(authority: str, key: str | None, headers: Mapping[str, str]) -> bytes:
    """The header lines of every request to a server; `authority` is the value of Host."""
    lines = {
        "Host": authority,
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "mlperf-suite",
        **({"Authorization": f"Bearer {key}"} if key else {}),
        **headers,
    }
    return "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode()


class PendingConnection(Protocol):
    """A request that wants a connection until it `is_over`. `opened_s`: how long opening one for it
    took, in s."""

    opened_s: float
    is_over: bool

    def begin(self, connection: Connection) -> None:
        """Send on this connection now."""

    def fail(self, why: str, *, died: bool) -> None:
        """No connection can be opened."""


class Pool:
    """The connections to one place, at most `limit`. `lines`: the `header_lines` of each request.
    `context`: for a place with TLS."""

    def __init__(
        self,
        place: ServerAddress | Target,
        lines: bytes,
        limit: int,
        context: ssl.SSLContext | None,
    ) -> None:
        self._place, self._lines, self._limit = place, lines, limit
        self._context = context if place.tls else None
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening = 0
        self._most_open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[PendingConnection] = deque()
        self._want_new: deque[PendingConnection] = deque()
        self._late: dict[Connection, asyncio.TimerHandle] = {}
        self._closes_late = False

    def head(self, path: str, length: int) -> bytes:
        """A request's head, for a body of `length` bytes."""
        end = b"Content-Length: %d\r\n\r\n" % length
        return b"POST %b HTTP/1.1\r\n%b%b" % (path.encode(), self._lines, end)

    def take_most_open(self) -> int:
        """The most connections that were open at once since the last call."""
        most, self._most_open = self._most_open, len(self._open)
        return max(most, len(self._open))

    def acquire(self, pending: PendingConnection) -> None:
        """Give it a connection, now or as soon as there is one."""
        if pending.is_over:
            return
        connection = self._fresh()
        if connection is not None:
            pending.begin(connection)
        else:
            self._waiting.append(pending)
        self._open_more()

    def acquire_new(self, pending: PendingConnection) -> None:
        """Give it a connection on which nothing was sent before, once one is opened. The server
        closed a kept one, and may have closed every other idle one too: idle connections are not
        used again."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._want_new.append(pending)
        self._open_more()

    def close(self) -> None:
        """Close every connection."""
        for connection in (*self._open, *self._late):
            connection.close()

    def forget_waiting(self) -> None:
        """Open no connection for waiting requests."""
        self._waiting.clear()
        self._want_new.clear()

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
        queues = (self._waiting,) if connection.kept else (self._want_new, self._waiting)
        for queue in queues:
            while queue:
                pending = queue.popleft()
                if not pending.is_over:
                    pending.begin(connection)
                    return
        connection.kept = True
        self._idle.append(connection)

    def _leave(self, connection: Connection) -> None:
        """Its stream ended, its response did not: it does not count, so that nobody waits for it. A
        server that once kept one open does so each time."""
        self._open.discard(connection)
        if self._closes_late:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        self._late[connection] = loop.call_later(_BODY_END_S, self._give_up, connection)

    def _give_up(self, connection: Connection) -> None:
        self._closes_late = True
        connection.close()

    def _take_back(self, connection: Connection) -> None:
        """It can be used again, unless another one took its place."""
        if timer := self._late.pop(connection, None):
            timer.cancel()
            if len(self._open) >= self._limit:
                connection.close()
                return
            self._open.add(connection)
        self.release(connection)

    @property
    def _wanted(self) -> bool:
        """Whether a new connection would be used at once."""
        return bool(self._want_new or self._waiting)

    def _open_more(self) -> None:
        short_by = len(self._want_new) + len(self._waiting) + _SPARE - len(self._idle)
        room = min(self._limit - len(self._open) - self._opening, _OPENING - self._opening)
        for _ in range(min(short_by - self._opening, room)):
            self._opening += 1
            task = asyncio.get_running_loop().create_task(self._connect())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        start, place = time.monotonic(), self._place
        try:
            async with asyncio.timeout(CONNECT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._take_back, self._drop, self._leave),
                    place.address or place.host,
                    place.port,
                    ssl=self._context,
                    server_hostname=place.host if self._context is not None else None,
                )
        except (OSError, TimeoutError) as error:
            self._opening -= 1
            seekers = [*self._want_new, *self._waiting]
            self.forget_waiting()
            for pending in seekers:
                # It would meet the same error.
                pending.fail(why_unreachable(error, CONNECT_S), died=True)
            return
        self._opening -= 1
        self._open.add(connection)
        self._most_open = max(self._most_open, len(self._open))
        if self._waiting and not self._want_new:
            # A request that is sent again already waited, in the network.
            self._waiting[0].opened_s = time.monotonic() - start
        was_lost = not connection.usable
        self.release(connection)
        if was_lost:
            # Before this task went on, so that nobody could be told: now its request is.
            connection.connection_lost(None)
        if self._wanted:
            self._open_more()

    def _drop(self, connection: Connection) -> None:
        self._open.discard(connection)
        if timer := self._late.pop(connection, None):
            timer.cancel()
        if connection in self._idle:
            self._idle.remove(connection)
        if self._wanted:
            self._open_more()


class PooledRequest(ResponseHandler):
    """A request on a pool's connections: a PendingConnection, and what its connection calls. It is
    sent again, on a new connection, where the server had closed a kept one. `resent`: how often."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.connection: Connection | None = None
        self.opened_s = 0.0
        self.resent = 0
        self.is_over = False

    def begin(self, connection: Connection) -> None:
        """Send it on this connection, which is free."""
        raise NotImplementedError

    def fail(self, why: str, *, died: bool, unfit: bool = False) -> None:
        """End without an answer, if it did not end yet. `died`: the server can no longer be
        reached. `unfit`: it does not take such requests."""
        raise NotImplementedError

    def refuse(self, why: str, *, unfit: bool = False) -> None:
        """Fail, unless it ended already, and read no more of the answer."""
        if self.is_over:
            return
        connection, self.connection = self.connection, None
        self.fail(why, died=False, unfit=unfit)
        if connection is not None:
            connection.close()

    def on_error(self, data: bytes) -> None:
        self.refuse(error_line(data))

    def on_loss(self, why: str, any_data: bool) -> None:
        connection, self.connection = self.connection, None
        kept = connection is not None and connection.kept
        if not kept or any_data:
            self.fail(why, died=True)
            return
        # The server closed the kept connection before it saw the request, as it may at any time. On
        # a new connection it is sent only once.
        self.resent += 1
        self.pool.acquire_new(self)


def max_connections(places: int) -> int:
    """How many connections to each of so many places a client process can open at once, by the
    system's limit on open files."""
    return max(1, (_file_limits()[0] - _FILES_LEFT) // places)


def raise_file_limit() -> None:
    """Let this process open as many files as `max_connections` counts on."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _file_limits())


def _file_limits() -> tuple[int, int]:
    """The soft limit that a client process sets itself, and the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (_MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)), hard


def why_unreachable(error: BaseException, patience_s: float) -> str:
    """The reason, in words that follow the server's URL. `patience_s`: the timeout used, in s."""
    match error:
        case ssl.SSLCertVerificationError() if error.verify_code in _OTHER_HOST:
            words = (
                f"its TLS certificate is for another host ({error.verify_message}): "
                "give its URL with a name that the certificate has"
            )
        case ssl.SSLCertVerificationError():
            words = (
                f"its TLS certificate does not verify ({error.verify_message}): "
                "give --endpoint-ca the file of its authority"
            )
        case ssl.SSLError() if error.reason in _PLAIN_HTTP:
            words = "does not speak TLS: give its URL with http://"
        case ssl.SSLError():
            words = f"TLS failed: {error.reason or error}"
        case ConnectionRefusedError():
            words = "refused the connection: is a server running there?"
        case TimeoutError():
            words = f"did not answer within {patience_s:.0f} s"
        case socket.gaierror():
            words = f"its name cannot be found: {error.strerror}"
        case _:
            words = f"cannot be reached: {getattr(error, 'strerror', None) or error}"
    return words
