"""Conversations held at fixed concurrencies on vLLM's own server."""

from __future__ import annotations

from pathlib import Path

from evidence.chats.short_conversations import write_conversations
from mlperf_suite.features.chats.agent_sessions import read_sessions
from mlperf_suite.features.chats.chat_client import ChatEndpoint
from mlperf_suite.features.endpoints.curve.agent_points import ConversationPoints, sampling_of
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.server_facts import find_server_facts
from scripts.local_servers import vllm_server


def test_vllm_has_points_of_conversations(tmp_path: Path) -> None:
    file = write_conversations(tmp_path)
    arguments = ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
    fields, sampling = sampling_of("qwen3_6-35b-a3b", 16)
    with vllm_server(arguments=arguments) as server:
        target = parse_endpoint(server.url)
        config = EndpointConfig((target,), server.model, None, 0, chat=True)
        engine = ChatEndpoint(config, find_server_facts(config, target))
        agents = ConversationPoints(
            read_sessions(file),
            lambda connections: engine.chat(connections, fields),
            engine.metrics,
            sampling,
            timeout_s=600.0,
        )
        points = [agents.measure(concurrency, 20.0) for concurrency in (1, 2)]
    assert all(point.interactivity and point.servers for point in points)
    assert any(point.turns and point.turns.cached_within for point in points)
