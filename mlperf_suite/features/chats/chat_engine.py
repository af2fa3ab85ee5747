"""A server that is asked on its route of chat completions alone, one request at a time."""

from __future__ import annotations

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import (
    SERVER_MODEL,
    SPECULATIVE,
    EngineDescription,
    Listener,
    RequestList,
)
from mlperf_suite.errors import EngineError, UsageError
from mlperf_suite.features.chats.chat import Json
from mlperf_suite.features.chats.chat_client import ChatClient, ChatServer
from mlperf_suite.features.servers.config import EndpointConfig
from mlperf_suite.features.servers.server_facts import ServerFacts, find_out, metrics

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
            return cls(config, find_out(config, config.targets[0]))
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
