"""Recorded conversations on vLLM's own server: which KV reuse is seen, in usage and in metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence.chats.short_conversations import write_conversations
from mlperf_suite.__main__ import main
from scripts.local_servers import vllm_server


@pytest.mark.parametrize("usage", [True, False])
def test_vllm_reuses_within_a_conversation_alone(tmp_path: Path, usage: bool) -> None:
    file, out = write_conversations(tmp_path), tmp_path / "replay.json"
    details = ["--enable-prompt-tokens-details"] if usage else []
    with vllm_server(arguments=["--enable-prefix-caching", *details]) as server:
        words = ["replay", str(file), "--endpoint", server.url, "--model", server.model]
        assert main([*words, "--out", str(out)]) == 0
    summary = json.loads(out.read_text())
    reuse = summary["cache_reuse"]
    assert reuse["across"] == 0 and reuse["within"] > 100
    assert summary["server_view"]["running_most"] >= 1
    assert not any(turn["count_mismatch"] for turn in summary["per_turn"])
