"""One request at a time on the route of chat completions, timed as completions are.

For benchmarks with concurrency 1 by their rules: the client runs in this process, on the same
connections as the completions' client processes.

`ChatEndpoint` is a server that is asked so, as an engine.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.messages import ServerAddress, WorkerConfig
from mlperf_suite.engines.protocol import (
    SERVER_MODEL,
    SPECULATIVE,
    EngineDescription,
    Listener,
    RequestList,
)
from mlperf_suite.errors import EngineError, UsageError
from mlperf_suite.features.chats.chat import (
    ChatAnswer,
    ChatLimits,
    ChatRequest,
    Json,
    chat_body,
)
from mlperf_suite.features.servers.adapters import (
    CHAT_COMPLETIONS,
    AnswerError,
    error_line,
    error_words,
)
from mlperf_suite.features.servers.config import EndpointConfig, Target
from mlperf_suite.features.servers.connection import Connection, Pool
from mlperf_suite.features.servers.server_facts import ServerFacts, find_server_facts, metrics

_VLLM_FIELDS = {"return_token_ids": True}


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One request and its outcome. Times in s: `ttft_s` until the first piece of content,
    reasoning or a tool call; `latency_s` until the end. `failure`: why there is no answer, else
    empty. `resent`: it was sent again on a new connection, because the server had closed the kept
    one; the times count from the first sending."""

    answer: ChatAnswer
    sent: float
    ttft_s: float | None
    latency_s: float
    failure: str = ""
    resent: bool = False

    @property
    def tokens(self) -> int | None:
        """The answer's tokens: as received, else as the server counts."""
        return len(self.answer.token_ids) or self.answer.completion_tokens

    @property
    def tpot_s(self) -> float | None:
        """Time for each token after the first, in s."""
        if self.ttft_s is None or not self.tokens or self.tokens < 2:
            return None
        return (self.latency_s - self.ttft_s) / (self.tokens - 1)

    def count_mismatch(self) -> str:
        """The fault of the server's count, if the tokens that came are another number."""
        came, usage = len(self.answer.token_ids), self.answer.completion_tokens
        if not came or usage is None or came == usage:
            return ""
        return f"sent {came} tokens where its usage counts {usage}"


class ChatServer(Protocol):
    """What answers a turn; see `ChatClient`."""

    async def ask(self, request: ChatRequest) -> ChatTurn: ...


class ChatClient:
    """Asks one server; `token_ids`: it is vLLM, which adds them to its answers. `key`, `headers`,
    `ca_file`: as in `EndpointConfig`. `connections`: the most at once. `fields`: what each request
    adds to OpenAI's. Made and used in one event loop."""

    def __init__(
        self,
        target: Target,
        model: str,
        *,
        key: str | None = None,
        token_ids: bool = False,
        connections: int = 2,
        fields: Json | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: Path | None = None,
    ) -> None:
        self._model = model
        self._fields = {**(_VLLM_FIELDS if token_ids else {}), **(fields or {})}
        self._path = target.path(CHAT_COMPLETIONS)
        place = ServerAddress(
            host=target.host,
            address=target.address or target.host,
            port=target.port,
            tls=target.tls,
            authority=target.authority,
            path=self._path,
            posts=self._path,
        )
        context = ssl.create_default_context(cafile=ca_file) if target.tls else None
        self._pool = Pool(
            place, _worker_config(place, model, key, headers or {}, connections), context
        )

    async def ask(self, request: ChatRequest, limits: ChatLimits | None = None) -> ChatTurn:
        """Ask, and wait for the end of the answer. A turn that takes too long is ended, and its
        connection closed."""
        body, timeout_s = chat_body(request, self._model, self._fields), request.timeout_s
        head = self._pool.head(self._path, len(body))
        handler = _ChatHandler(self._pool, head + body, limits)
        self._pool.acquire(handler)
        try:
            async with asyncio.timeout(timeout_s):
                await handler.ended.wait()
        except TimeoutError:
            handler.abandon(f"did not end its answer within {timeout_s:g} s")
        except asyncio.CancelledError:
            handler.abandon("was no longer asked")
            raise
        return handler.turn()


def _worker_config(
    place: ServerAddress, model: str, key: str | None, headers: Mapping[str, str], connections: int
) -> WorkerConfig:
    return WorkerConfig(
        places=[place],
        kind="text",
        model=model,
        key=key,
        headers=dict(headers),
        ca_file=None,
        tokenizer=None,
        vocabulary=0,
        context=None,
        # The spare one replaces a connection that the server closed.
        connections=connections,
        silence_s=0.0,
    )


class _ChatHandler:
    """One request on a connection: a PendingConnection and a ResponseHandler."""

    def __init__(self, pool: Pool, request: bytes, limits: ChatLimits | None) -> None:
        self._pool = pool
        self._request = request
        self._answer = ChatAnswer(limits)
        self._connection: Connection | None = None
        self._sent = self._end = time.monotonic()
        self._first: float | None = None
        self._failure = ""
        self._resent = False
        self.opened_s = 0.0
        self.is_over = False
        self.ended = asyncio.Event()

    def begin(self, connection: Connection) -> None:
        self._connection = connection
        if not self._resent:
            # Before the bytes go: on a busy machine the answer can come before this line would be
            # reached, and the TTFT would lack that time.
            self._sent = time.monotonic()
        connection.send(self._request, self)

    def on_event(self, data: bytes, arrived: float) -> None:
        if self.is_over:
            return
        try:
            came = self._answer.read(data)
        except AnswerError as error:
            self.abandon(str(error))
            return
        if came and self._first is None:
            self._first = arrived
        if self._connection is not None and not self._connection.streams:
            self.abandon("answered in one piece although a stream was requested")

    def on_error(self, data: bytes) -> None:
        self.abandon(error_line(data))

    def on_end(self, arrived: float) -> None:
        self._end = arrived
        if not self._answer.finish_reason:
            self._failure = self._failure or "ended its answer without a finish_reason"
        self._over()

    def on_refusal(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.fail(f"answered with status {status}: {error_words(body)}", died=False)

    def on_loss(self, why: str, any_data: bool) -> None:
        connection, self._connection = self._connection, None
        kept = connection is not None and connection.kept
        if not kept or any_data:
            self.fail(why, died=True)
            return
        # As `Request.on_loss`.
        self._resent = True
        self._pool.acquire_new(self)

    def fail(self, why: str, *, died: bool) -> None:
        self._failure = self._failure or why
        self._end = time.monotonic()
        self._over()

    def abandon(self, why: str) -> None:
        """Fail, and read no more of the answer."""
        if not self.is_over:
            self.fail(why, died=False)
            if self._connection is not None:
                self._connection.close()

    def _over(self) -> None:
        self.is_over = True
        self.ended.set()

    def turn(self) -> ChatTurn:
        ttft_s = None if self._first is None else self._first - self._sent
        latency_s = self._end - self._sent
        return ChatTurn(self._answer, self._sent, ttft_s, latency_s, self._failure, self._resent)


_UNKNOWN_CONTEXT = 131_072


class ChatEndpoint:
    """One server as an engine for messages. Create it with `ChatEndpoint.load`."""

    alive = True

    def __init__(self, config: EndpointConfig, server: ServerFacts) -> None:
        self._config, self._server = config, server

    @classmethod
    def load(cls, config: EndpointConfig) -> ChatEndpoint:
        """Ask the server what it is. Raises EngineError if it cannot be reached or serves another
        model."""
        try:
            return cls(config, find_server_facts(config, config.targets[0]))
        except UsageError as error:
            raise EngineError(str(error)) from error

    @property
    def description(self) -> EngineDescription:
        server = self._server
        says_root = server.root is not None and server.root != server.model
        return EngineDescription(
            server.name,
            server.version,
            server.model,
            server.stand_in,
            server.max_model_len or _UNKNOWN_CONTEXT,
            {
                "endpoints": [server.target.url],
                "route": "chat completions",
                "context_said": server.max_model_len is not None,
                **({SERVER_MODEL: server.root} if says_root else {}),
                **({} if server.speculative == {} else {SPECULATIVE: server.speculative}),
            },
        )

    def metrics(self) -> dict[str, float]:
        """The figures of the server's metrics; empty if it has none."""
        return metrics(self._config, self._server.target, self._server.kind)

    def chat(self, connections: int = 2, fields: Json | None = None) -> ChatServer:
        """The client of the current event loop; see `ChatClient`."""
        config, server = self._config, self._server
        return ChatClient(
            server.target,
            server.model,
            key=config.key,
            token_ids=server.kind == "vllm",
            headers=config.headers,
            ca_file=config.ca_file,
            connections=connections,
            fields=fields,
        )

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        """Raises EngineError: it is given messages, not tokens."""
        raise EngineError("this server is asked for chat completions, not for tokens")

    def abort(self) -> None:
        """Nothing: a request ends with the one who asks."""

    def close(self) -> None:
        """Nothing to stop."""
