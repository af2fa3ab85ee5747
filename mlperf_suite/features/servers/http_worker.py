"""A client process: `python -m mlperf_suite.features.servers.http_worker FD`.

One event loop sends the requests that arrive over the socket FD and reports the answers. The
process ends when the other end of the socket closes, for whatever reason.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import ssl
import sys
import time
from collections import Counter
from typing import Any, cast

import msgspec
import uvloop

from mlperf_suite.engines.framed_socket import FrameDecoder, frame
from mlperf_suite.engines.messages import (
    Drop,
    FromWorker,
    HttpWorkerHeartbeat,
    Post,
    Submit,
    WorkerConfig,
    to_worker,
)
from mlperf_suite.features.servers.adapters import ADAPTERS
from mlperf_suite.features.servers.connection import Pool, header_lines, raise_file_limit
from mlperf_suite.features.servers.http_requests import (
    GenerationRequest,
    HttpWorkerState,
    PostRequest,
    TextCodec,
)
from mlperf_suite.secrets import remember

_BEAT_S = 0.25
_ASLEEP_S = 4.0
"""Beats further apart mean that this process was stopped: Ctrl-Z, or the machine slept."""


class HttpWorker(asyncio.Protocol):
    """The socket to the engine, and the requests that came over it. The first message is a
    WorkerConfig.

    `closed` is set when the engine closed the socket.
    """

    def __init__(self, closed: asyncio.Event) -> None:
        self._closed = closed
        self._frames = FrameDecoder()
        self._greeted = False
        self._out: list[FromWorker] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._link = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set()

    def data_received(self, data: bytes) -> None:
        for content in self._frames.feed(data):
            message = to_worker.decode(content)
            if isinstance(message, WorkerConfig) is self._greeted:
                raise ValueError(
                    f"a WorkerConfig comes first and once; this is {type(message).__name__}"
                )
            match message:
                case WorkerConfig() as config:
                    self._begin(config)
                case Submit() as submit:
                    self._submit(submit)
                case Post() as post:
                    PostRequest(self._shared, post).start()
                case Drop():
                    self._drop()

    def _begin(self, config: WorkerConfig) -> None:
        self._greeted = True
        # A server may echo what it was sent.
        remember(config.key or "")
        remember(config.headers)
        adapter = ADAPTERS[config.kind]
        text: TextCodec | None = None
        if not adapter.token_ids:
            assert config.tokenizer is not None
            text = TextCodec(config.tokenizer)
        context = None
        if any(place.tls for place in config.places):
            context = ssl.create_default_context(cafile=config.ca_file)
        pools = [
            Pool(
                place,
                header_lines(place.authority, config.key, config.headers),
                config.connections,
                context,
            )
            for place in config.places
        ]
        self._shared = HttpWorkerState(config, adapter, text, pools, self.tell)
        self._looked = time.monotonic()
        asyncio.get_running_loop().call_later(_BEAT_S, self._heartbeat)

    def tell(self, message: FromWorker) -> None:
        """Send a message to the engine, together with all others of this turn of the loop."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(message)

    def _flush(self) -> None:
        if self._shared.tokens and not self._shared.under_way:
            # The last answer of a run: its tokens belong to that run.
            self._out.insert(0, self._new_beat())
        out, self._out = self._out, []
        self._link.write(frame(out))

    def _heartbeat(self) -> None:
        shared = self._shared
        self.tell(self._new_beat())
        now, silence_s = time.monotonic(), shared.config.silence_s
        gap, self._looked = now - self._looked, now
        asleep_s = gap if gap > _ASLEEP_S else 0.0
        for request in list(shared.under_way):
            request.look(now, silence_s, asleep_s)
        asyncio.get_running_loop().call_later(_BEAT_S, self._heartbeat)

    def _new_beat(self) -> HttpWorkerHeartbeat:
        shared = self._shared
        most = sum(pool.take_most_open() for pool in shared.pools)
        tokens, shared.tokens = shared.tokens, 0
        pieces, turned_away = list(shared.pieces), list(shared.turned_away)
        events, shared.events = shared.events, Counter()
        return HttpWorkerHeartbeat(time.monotonic(), pieces, tokens, most, turned_away, events)

    def _submit(self, message: Submit) -> None:
        stops = message.stops or itertools.repeat("", len(message.numbers))
        for number, place, prompt, stop in zip(
            message.numbers, message.places, message.prompts, stops, strict=True
        ):
            sampling = message.sampling
            if stop:
                sampling = msgspec.structs.replace(sampling, stop=stop)
            GenerationRequest(self._shared, number, place, prompt, sampling).start()

    def _drop(self) -> None:
        for request in list(self._shared.under_way):
            request.forget()
        for pool in self._shared.pools:
            pool.forget_waiting()


async def _serve(descriptor: int) -> None:
    closed = asyncio.Event()
    engine_socket = socket.socket(fileno=descriptor)
    engine_socket.setblocking(False)
    loop = asyncio.get_running_loop()

    def crashed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if context.get("exception") is not None:
            # A bug of ours: the engine sees the process end, and reports it.
            os._exit(1)

    loop.set_exception_handler(crashed)
    await loop.create_unix_connection(lambda: HttpWorker(closed), sock=engine_socket)
    await closed.wait()


def main() -> None:
    """Serve the engine at the other end until it closes the socket."""
    # The engine handles Ctrl-C; this process ends when the socket closes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise_file_limit()
    uvloop.run(_serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
