"""A client process: `python -m mlperf_suite.engines.endpoint.client FD`.

One event loop sends the requests that come over the socket FD and tells of the answers. It ends
when the other end of the socket is closed, however that came about.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import socket
import ssl
import sys
import time
from array import array
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from mlperf_suite.engines.endpoint.adapters import ADAPTERS, Answer, AnswerError, words_of
from mlperf_suite.engines.endpoint.connection import Connection
from mlperf_suite.engines.endpoint.messages import (
    Beat,
    Done,
    Drop,
    Failed,
    First,
    Frames,
    FromClient,
    Hello,
    Place,
    Post,
    Reply,
    Sampling,
    Submit,
    frame,
    to_client,
)
from mlperf_suite.engines.endpoint.unreachable import why_unreachable

CONNECT_S = 10.0
"""What opening a connection may take, in s."""
_FRESH_S = 2.0
"""How long a connection may have been idle to be used again: uvicorn, which most of these servers
run on, closes one after 5 s, and what is sent just then is lost."""
_SPARE = 4
"""Idle connections that are kept to each place while there is work, so that a new query need not
wait for one to open."""
_OPENING = 64
"""Connections to a place that are opened at once: its queue of new ones is finite."""
_BEAT_S = 0.25
_BACKOFF_S = (0.5, 1.0, 2.0)
_PASSING = (429, 500, 502, 503, 504)
"""The statuses of a server that may answer the same request a moment later."""
_REDIRECTS = (301, 302, 303, 307, 308)
_FILES_LEFT = 64
"""Open files that the process needs besides its connections."""

_json = msgspec.json.Encoder()


class Client:
    """The state of a client process."""

    def __init__(self, hello: Hello, link: asyncio.Transport) -> None:
        self._link = link
        self._out: list[FromClient] = []
        self.hello = hello
        self.adapter = ADAPTERS[hello.kind]
        self.text: _TextCodec | None = None
        if not self.adapter.token_ids:
            assert hello.tokenizer is not None
            self.text = _TextCodec(hello.tokenizer)
        self.exchanges: set[_Exchange] = set()
        context = _tls_context(hello.ca_file) if any(p.tls for p in hello.places) else None
        limit = min(hello.connections, _file_limit() // len(hello.places))
        self.pools = [_Pool(place, hello, context, limit) for place in hello.places]
        self.pieces = [0] * len(hello.places)
        self.tokens = 0
        self._told: list[int] = list(self.pieces)
        asyncio.get_running_loop().call_later(_BEAT_S, self._beat)

    def tell(self, message: FromClient) -> None:
        """Send a message to the engine, together with all of this turn of the loop."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(message)

    def _flush(self) -> None:
        out, self._out = self._out, []
        self._link.write(frame(out))

    def _beat(self) -> None:
        if self.pieces != self._told:
            self._told = list(self.pieces)
            most = sum(pool.take_most_open() for pool in self.pools)
            self.tell(Beat(time.monotonic(), self._told, self.tokens, most))
            self.tokens = 0
        asyncio.get_running_loop().call_later(_BEAT_S, self._beat)

    def submit(self, message: Submit) -> None:
        """Send these requests."""
        for number, place, prompt in zip(
            message.numbers, message.places, message.prompts, strict=True
        ):
            Generating(self, number, place, prompt, message.sampling).start()

    def post(self, message: Post) -> None:
        """Send this request."""
        Posting(self, message).start()

    def drop(self) -> None:
        """Forget every request."""
        for exchange in list(self.exchanges):
            exchange.forget()
        for pool in self.pools:
            pool.waiting.clear()


class _TextCodec:
    """Text for servers that know no token ids, and tokens of the text that they give."""

    def __init__(self, folder: str) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        # What the server's own tokenizer puts before every text.
        before = self._tokenizer.encode("").ids
        self._before = before[:1]
        self._end = self._end_id(Path(folder))

    def _end_id(self, folder: Path) -> int | None:
        with contextlib.suppress(OSError, msgspec.DecodeError, AttributeError):
            found = msgspec.json.decode((folder / "tokenizer_config.json").read_bytes())
            token = found.get("eos_token")
            content = token.get("content") if isinstance(token, dict) else token
            number: int | None = self._tokenizer.token_to_id(str(content))
            return number
        return None

    def prompt(self, token_ids: list[int]) -> str:
        own = token_ids[1:] if self._before and token_ids[:1] == self._before else token_ids
        text: str = self._tokenizer.decode(own, skip_special_tokens=False)
        return text

    def tokens(self, text: str) -> list[int]:
        """Counted over the whole text; an answer that ended at once is its end alone."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids or ([] if self._end is None else [self._end])


class _Exchange:
    """One request, from its first sending to its end; sent again where that does no harm."""

    def __init__(self, client: Client, number: int, place: int) -> None:
        self.client = client
        self.number = number
        self.place = place
        self.pool = client.pools[place]
        self.connection: Connection | None = None
        self.sent = 0.0
        self.opened_s = 0.0
        self.resent = 0
        self._over = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.client.exchanges.add(self)
        self.pool.acquire(self)

    def request(self) -> bytes:
        """The head and body to send."""
        raise NotImplementedError

    def begin(self, connection: Connection) -> None:
        """A connection is free for it."""
        self.connection = connection
        try:
            data = self.request()
        except Exception as error:
            self.pool.release(connection)
            self.fail(f"could not be asked: {type(error).__name__}: {error}", gone=False)
            return
        connection.send(data, self)
        self.sent = self.sent or time.monotonic()

    def event(self, data: bytes, arrived: float) -> None:
        raise NotImplementedError

    def ended(self, arrived: float) -> None:
        raise NotImplementedError

    def refused(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        if status in _REDIRECTS:
            where = words_of(headers.get(b"location", b"elsewhere"))
            self.fail(f"redirects to {where}: give that URL", gone=True)
        elif status in (401, 403):
            self.fail(f"refused the key (status {status}): set API_KEY", gone=True)
        elif status not in _PASSING or not self._again(_BACKOFF_S[min(self.resent, 2)]):
            self.fail(f"answered with status {status}: {_error_of(body)}", gone=False)

    def lost(self, why: str, heard: bool) -> None:
        stale = self.connection is not None and self.connection.used and not heard
        self.connection = None
        if stale and self.resent == 0:
            # The server closed an idle connection just when it was used again.
            self.resent += 1
            self.pool.acquire(self)
            return
        self.fail(why, gone=True)

    def retries(self) -> int:
        """How often it may be sent again where the server refuses it for now."""
        return 0

    def _again(self, after_s: float) -> bool:
        if self.resent >= self.retries():
            return False
        self.resent += 1
        self.restart()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(after_s, self.pool.acquire, self)
        return True

    def restart(self) -> None:
        """Forget what came so far."""

    def fail(self, why: str, *, gone: bool) -> None:
        if not self._over:
            self.over()
            self.client.tell(Failed(self.number, why, gone))

    def over(self) -> None:
        self._over = True
        self.client.exchanges.discard(self)

    def forget(self) -> None:
        """The engine wants no answer any more."""
        self.over()
        if self._timer is not None:
            self._timer.cancel()
        if self.connection is not None:
            self.connection.close()

    @property
    def is_over(self) -> bool:
        return self._over


class Generating(_Exchange):
    """A prompt's answer."""

    def __init__(
        self, client: Client, number: int, place: int, prompt: bytes, sampling: Sampling
    ) -> None:
        super().__init__(client, number, place)
        self._prompt = prompt
        self._sampling = sampling
        self.restart()

    def restart(self) -> None:
        self._answer = Answer()
        self._first = 0.0
        self._counted = 0

    def retries(self) -> int:
        return self._sampling.retries

    def request(self) -> bytes:
        client, hello = self.client, self.client.hello
        ids = array("i", self._prompt).tolist()
        sampling = self._sampling
        if hello.context is not None and len(ids) + sampling.max_tokens > hello.context:
            # A server refuses what its context cannot hold, and an engine in process cuts it.
            room = max(1, hello.context - len(ids))
            sampling = msgspec.structs.replace(sampling, max_tokens=room)
        adapter = client.adapter
        prompt = client.text.prompt(ids) if client.text and adapter.text_prompts else ids
        salt = f"{random.getrandbits(64):016x}"
        body = _json.encode(adapter.body(prompt, sampling, hello.model, salt))
        return self.pool.head(adapter.path, len(body)) + body

    def event(self, data: bytes, arrived: float) -> None:
        if self._over:
            return
        client, answer = self.client, self._answer
        client.pieces[self.place] += 1
        try:
            client.adapter.read(data, answer)
            made = len(answer.token_ids)
            if made > self._counted:
                _check_tokens(answer.token_ids[self._counted :], client.hello.vocabulary)
                client.tokens += made - self._counted
                self._counted = made
        except AnswerError as error:
            self._refuse(str(error))
            return
        if not self._first and (answer.token_ids or answer.text):
            self._first = arrived
            if self._sampling.wants_first:
                client.tell(First(self.number, self._first_tokens(), arrived))

    def _first_tokens(self) -> list[int]:
        if self.client.text is None:
            return list(self._answer.token_ids)
        return self.client.text.tokens("".join(self._answer.text))[:1]

    def _refuse(self, why: str) -> None:
        connection, self.connection = self.connection, None
        self.fail(why, gone=False)
        if connection is not None:
            connection.close()

    def ended(self, arrived: float) -> None:
        if self._over:
            return
        client, answer = self.client, self._answer
        token_ids = answer.token_ids
        if client.text is not None and (answer.text or answer.finish_reason):
            token_ids = client.text.tokens("".join(answer.text))
            client.tokens += len(token_ids)
        if not token_ids:
            self.fail("answered without a token", gone=False)
            return
        if answer.finish_reason is None:
            self.fail("ended an answer without a finish_reason", gone=False)
            return
        self.over()
        named = (answer.model or "").partition("@")[0]  # some servers add a revision
        model = answer.model if named not in ("", client.hello.model) else None
        client.tell(
            Done(
                self.number,
                list(token_ids),
                self.sent,
                self.opened_s,
                self._first or arrived,
                arrived,
                self.resent,
                answer.prompt_tokens,
                answer.completion_tokens,
                answer.cached_tokens,
                answer.finish_reason,
                model,
            )
        )


class Posting(_Exchange):
    """A `Post`."""

    def __init__(self, client: Client, message: Post) -> None:
        super().__init__(client, message.number, message.place)
        self._message = message
        self._body = b""

    def retries(self) -> int:
        return len(_BACKOFF_S)

    def request(self) -> bytes:
        body = self._message.body
        return self.pool.head(self._message.path, len(body)) + body

    def event(self, data: bytes, arrived: float) -> None:
        self.client.pieces[self.place] += 1
        self._body = data

    def ended(self, arrived: float) -> None:
        if not self._over:
            self.over()
            self.client.tell(Reply(self.number, self._body))


class _Pool:
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
        self.waiting: deque[_Exchange] = deque()
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
        """A request's head, for a body of so many bytes."""
        line = f"POST {self._place.prefix}{path} HTTP/1.1\r\n".encode()
        return b"%s%sContent-Length: %d\r\n\r\n" % (line, self._lines, length)

    def take_most_open(self) -> int:
        """The most connections that were open at once since the last call."""
        most, self._most_open = self._most_open, len(self._open)
        return max(most, len(self._open))

    def acquire(self, exchange: _Exchange) -> None:
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
        """It can be used again."""
        while self.waiting:
            exchange = self.waiting.popleft()
            if not exchange.is_over:
                exchange.begin(connection)
                return
        self._idle.append(connection)

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
        """Every request that waits would meet the same."""
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


def _check_tokens(token_ids: list[int], vocabulary: int) -> None:
    for token in token_ids:
        if not 0 <= token < vocabulary:
            raise AnswerError(f"sent the token id {token}, beyond the vocabulary of {vocabulary:,}")


def _error_of(body: bytes) -> str:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        found: Any = msgspec.json.decode(body)
        if isinstance(found, dict):
            return words_of(found.get("error") or found.get("message") or found)
    return words_of(body) or "nothing more"


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)


def _file_limit() -> int:
    """The connections that the process may have open, its limit raised as far as it goes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard, 65_536) if hard != resource.RLIM_INFINITY else 65_536
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, soft - _FILES_LEFT)


class _Link(asyncio.Protocol):
    """The socket to the engine."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended
        self._frames = Frames()
        self._client: Client | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for content in self._frames.feed(data):
            message = to_client.decode(content)
            if isinstance(message, Hello):
                self._client = Client(message, self._transport)
            elif self._client is None:
                raise ValueError("the first message is no Hello")
            elif isinstance(message, Submit):
                self._client.submit(message)
            elif isinstance(message, Post):
                self._client.post(message)
            elif isinstance(message, Drop):
                self._client.drop()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()


async def _serve(descriptor: int) -> None:
    ended = asyncio.Event()
    link = socket.socket(fileno=descriptor)
    link.setblocking(False)
    loop = asyncio.get_running_loop()

    def crashed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if context.get("exception") is not None:
            # An error of our own: the engine sees the process end, and says so.
            os._exit(1)

    loop.set_exception_handler(crashed)
    await loop.create_unix_connection(lambda: _Link(ended), sock=link)
    await ended.wait()


def main() -> None:
    """Serve the engine at the other end until it closes the socket."""
    # Ctrl-C is the engine's to handle; the end of the socket ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(_serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
