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
from mlperf_suite.benchmarks.request_times import tpot
from mlperf_suite.engines.protocol import (
    SERVER_MODEL,
    SPECULATIVE,
    EngineDescription,
    Listener,
    RequestList,
)
from mlperf_suite.errors import EngineError, UsageError
from mlperf_suite.features.chats.chat import ChatAnswer, ChatLimits, ChatRequest, Json, chat_body
from mlperf_suite.features.servers.adapters import CHAT_COMPLETIONS, AnswerError, error_words
from mlperf_suite.features.servers.config import EndpointConfig, Target
from mlperf_suite.features.servers.connection import Connection, Pool, PooledRequest, header_lines
from mlperf_suite.features.servers.server_facts import ServerFacts, find_server_facts, metrics
from mlperf_suite.features.servers.streams import Arrivals


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One request and its outcome. Times in s: `ttft_s` until the first piece of content,
    reasoning or a tool call; `latency_s` until the end. `failure`: why there is no answer, else
    empty. `resent`: it was sent again on a new connection, because the server had closed the kept
    one; the times count from the first sending. `first_share`: what came with the first piece, as a
    share of the answer's text; None if it was not streamed or has none."""

    answer: ChatAnswer
    sent: float
    ttft_s: float | None
    latency_s: float
    failure: str = ""
    resent: bool = False
    first_share: float | None = None

    @property
    def tokens(self) -> int | None:
        """The answer's tokens: as received, else as the server counts."""
        return len(self.answer.token_ids) or self.answer.completion_tokens

    @property
    def first_tokens(self) -> int | None:
        """The tokens that came with the first piece."""
        if self.first_share is None or not self.tokens:
            return None
        return max(1, round(self.first_share * self.tokens))

    @property
    def tpot_s(self) -> float | None:
        """Time for each token after the first, in s."""
        return None if self.ttft_s is None else tpot(self.ttft_s, self.latency_s, self.tokens or 0)

    def count_mismatch(self) -> str:
        """The fault of the server's count, if the tokens that came are another number."""
        came, usage = len(self.answer.token_ids), self.answer.completion_tokens
        if not came or usage is None or came == usage:
            return ""
        return f"sent {came} tokens where its usage counts {usage}"


class ChatServer(Protocol):
    """What answers a turn; see `ChatClient`."""

    async def ask(self, request: ChatRequest) -> ChatTurn: ...

    def close(self) -> None:
        """Close its connections; no turn is under way."""


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
        self._fields = {**({"return_token_ids": True} if token_ids else {}), **(fields or {})}
        self._path = target.path(CHAT_COMPLETIONS)
        context = ssl.create_default_context(cafile=ca_file) if target.tls else None
        lines = header_lines(target.authority, key, headers or {})
        # The spare connection replaces one that the server closed.
        self._pool = Pool(target, lines, connections, context)

    async def ask(self, request: ChatRequest, limits: ChatLimits | None = None) -> ChatTurn:
        """Ask, and wait for the end of the answer. A turn that takes too long is ended, and its
        connection closed."""
        body, timeout_s = chat_body(request, self._model, self._fields), request.timeout_s
        head = self._pool.head(self._path, len(body))
        turn = _PendingTurn(self._pool, head + body, limits)
        self._pool.acquire(turn)
        try:
            async with asyncio.timeout(timeout_s):
                await turn.ended.wait()
        except TimeoutError:
            turn.refuse(f"{turn.missing} within {timeout_s:g} s")
        except asyncio.CancelledError:
            turn.refuse("was no longer asked")
            raise
        return turn.result()

    def close(self) -> None:
        self._pool.close()


class _PendingTurn(PooledRequest):
    """One request, until its end."""

    def __init__(self, pool: Pool, request: bytes, limits: ChatLimits | None) -> None:
        super().__init__(pool)
        self._request = request
        self._answer = ChatAnswer(limits)
        self._sent = self._end = time.monotonic()
        self._first: float | None = None
        self._arrivals, self._pieces = Arrivals(), 0
        self._failure = ""
        self.ended = asyncio.Event()

    @property
    def missing(self) -> str:
        """What did not happen so far, in words that follow the server's URL."""
        if self.connection is None:
            return "had no connection free for a request"
        return f"did not {'end' if self._pieces else 'begin'} its answer"

    def begin(self, connection: Connection) -> None:
        self.connection = connection
        if not self.resent:
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
            self.refuse(str(error))
            return
        if came:
            self._first = self._first or arrived
            self._pieces += 1
            self._arrivals.came(self._answer.length, self._pieces, arrived)
        if self.connection is not None and not self.connection.streams:
            self.refuse("answered in one piece although a stream was requested")

    def on_end(self, arrived: float) -> None:
        self._end = arrived
        if not self._answer.finish_reason:
            self._failure = self._failure or "ended its answer without a finish_reason"
        self._over()

    def on_refusal(self, status: int, headers: dict[bytes, bytes], body: bytes) -> None:
        self.fail(f"answered with status {status}: {error_words(body)}", died=False)

    def fail(self, why: str, *, died: bool, unfit: bool = False) -> None:
        if not self.is_over:
            self._failure = self._failure or why
            self._end = time.monotonic()
            self._over()

    def _over(self) -> None:
        self.is_over = True
        self.ended.set()

    def result(self) -> ChatTurn:
        sent, resent = self._sent, bool(self.resent)
        ttft_s = None if self._first is None else self._first - sent
        share = self._arrivals.first / length if (length := self._answer.length) else None
        return ChatTurn(self._answer, sent, ttft_s, self._end - sent, self._failure, resent, share)


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
