"""A production trace replayed on vLLM's own server: lengths as recorded, prefixes shared."""

from __future__ import annotations

import json
from pathlib import Path

from mlperf_suite.__main__ import main
from scripts.local_servers import vllm_server


def test_vllm_reuses_what_the_trace_shares(tmp_path: Path) -> None:
    file, out = tmp_path / "trace.jsonl", tmp_path / "replay.json"
    rows = [
        {"timestamp": 2500 * n, "input_length": 700, "output_length": 12, "hash_ids": [0, n + 1]}
        for n in range(8)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
    with vllm_server(arguments=arguments) as server:
        words = ["replay", str(file), "--endpoint", server.url, "--model", server.model]
        main([*words, "--out", str(out), "--ttft-limit", "5000"])
    summary = json.loads(out.read_text())
    assert (summary["answered"], summary["failed"], summary["departures"]) == (8, 0, [])
    assert summary["output_tokens"] == 8 * 12
    # All but the first request can find the block of the first, and nothing else.
    assert 512 <= summary["cached_tokens"] <= summary["shared_tokens"] == 7 * 512
    assert summary["server_view"][0]["running_most"] >= 1
