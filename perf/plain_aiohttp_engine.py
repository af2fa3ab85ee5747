"""A straightforward endpoint engine to compare with: aiohttp in this process, JSON line by line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Sequence

import aiohttp
import uvloop

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import EngineDescription, Listener, Request
from mlperf_suite.errors import EngineDiedError

_CONNECTIONS = 2048


class PlainAiohttpEngine:
    """One aiohttp session on one event loop in one thread, for vLLM's dialect."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/v1/completions"
        self._loop = uvloop.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        opening = asyncio.run_coroutine_threadsafe(self._open(), self._loop)
        self._session = opening.result()

    async def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS))

    @property
    def description(self) -> EngineDescription:
        return EngineDescription("plain aiohttp client", aiohttp.__version__, "", True, 131_072)

    @property
    def alive(self) -> bool:
        return True

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        self._loop.call_soon_threadsafe(self._begin, requests, generation, listener)

    def _begin(
        self, requests: Sequence[Request], generation: Generation, listener: Listener
    ) -> None:
        for request in requests:
            task = self._loop.create_task(self._ask(request, generation, listener))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(self, request: Request, generation: Generation, listener: Listener) -> None:
        body = {
            "prompt": list(request.prompt_token_ids),
            "max_tokens": generation.max_new_tokens,
            "temperature": generation.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        tokens: list[int] = []
        try:
            async with self._session.post(self._url, json=body) as response:
                response.raise_for_status()
                async for line in response.content:
                    if not line.startswith(b"data: {"):
                        continue
                    for choice in json.loads(line[6:])["choices"]:
                        if not tokens:
                            listener.first_tokens([(request.tag, choice["token_ids"])])
                        tokens += choice["token_ids"]
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            listener.failed(request.tag, EngineDiedError(f"{type(error).__name__}: {error}"))
        else:
            listener.finished([(request.tag, tokens)])

    def abort(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def close(self) -> None:
        self.abort()
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._session.close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
