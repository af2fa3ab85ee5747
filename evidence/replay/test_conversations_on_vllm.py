"""Recorded conversations on vLLM's own server: which KV reuse is seen, in usage and in metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlperf_suite.__main__ import main
from mlperf_suite.features.chats.agent_sessions import read_sessions
from mlperf_suite.features.chats.chat_client import ChatEndpoint
from mlperf_suite.features.endpoints.curve.agent_points import ConversationPoints, sampling_of
from mlperf_suite.features.replay.recorded_sessions import asked_server
from scripts.local_servers import vllm_server

SYSTEM = "You are a helper who answers in one short sentence. " * 12


def conversation(name: str, turns: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for turn in range(turns):
        asked = {"role": "user", "content": f"What is {turn} plus {turn}?", "system": SYSTEM}
        lines += [asked, {"role": "assistant", "content": f"It is {2 * turn}."}]
    return [line | {"conversation_id": name, "turn": n} for n, line in enumerate(lines, 1)]


@pytest.mark.parametrize("usage", [True, False])
def test_vllm_reuses_within_a_conversation_alone(tmp_path: Path, usage: bool) -> None:
    file, out = tmp_path / "sessions.jsonl", tmp_path / "replay.json"
    lines = [line for name in ("a", "b", "c") for line in conversation(name, 3)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    details = ["--enable-prompt-tokens-details"] if usage else []
    with vllm_server(arguments=["--enable-prefix-caching", *details]) as server:
        words = ["replay", str(file), "--endpoint", server.url, "--model", server.model]
        assert main([*words, "--out", str(out)]) == 0
    summary = json.loads(out.read_text())
    reuse = summary["cache_reuse"]
    assert reuse["across"] == 0 and reuse["within"] > 100
    assert summary["server_view"]["running_most"] >= 1
    assert not any(turn["count_mismatch"] for turn in summary["per_turn"])


def test_vllm_has_points_of_conversations(tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    lines = [line for name in ("a", "b", "c") for line in conversation(name, 3)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
    fields, sampling = sampling_of("qwen3_6-35b-a3b", 16)
    with vllm_server(arguments=arguments) as server:
        engine = ChatEndpoint(*asked_server(server.url, server.model))
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
