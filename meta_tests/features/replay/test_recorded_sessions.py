"""The command that asks recorded sessions again: its files, its page and what it says."""

import json
from pathlib import Path
from typing import Any

from pytest import CaptureFixture

from meta_tests.features.chats.recorded_sessions import MODELS, rows, says_ls, written
from meta_tests.features.servers.chat_stand_in import Events, chat_server, delta
from meta_tests.reports.outputs import page_rows
from mlperf_suite.__main__ import main


def commanded(file: Path, url: str, *more: str) -> int:
    return main(["replay", str(file), "--endpoint", url, "--model", "m", *more])


def test_the_command_writes_a_page(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    name = "</script><b>"
    file = written(tmp_path, rows("a", ["ls", "ls"]) + rows(name, ["ls"]))
    out = tmp_path / "replay.json"

    def answer(body: dict[str, Any]) -> Events:
        return says_ls(body) if len(body["messages"]) > 2 or len(bodies) < 3 else [delta()]

    with chat_server(answer, {"/v1/models": lambda: MODELS}) as server:
        bodies = server.bodies
        assert commanded(file, server.url, "--out", str(out)) == 1
    summary = json.loads(out.read_text())
    assert (summary["turns"], summary["missing"], summary["salted"]) == (3, 1, True)
    page = out.with_suffix(".html").read_text()
    assert page.count("<svg") == 4 and "<b>" not in page
    assert ["up to 2,048", "2"] in [row[:2] for row in page_rows(page)]
    assert "Missing: 1 turn" in page and "KV reuse: not judged" in page
    assert "<h2>Reproduce it</h2>" in page
    said = capsys.readouterr().out
    assert "KV reuse: not judged" in said and "inline score: 0.6667 of 3 turns" in said


def test_a_server_that_is_gone_is_named(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    file, out = written(tmp_path, rows("a", ["ls", "ls"])), tmp_path / "replay.json"
    assert commanded(file, "http://127.0.0.1:9", "--out", str(out)) == 2
    assert "refused the connection" in capsys.readouterr().err
    assert not out.exists()
    assert commanded(file, "http://127.0.0.1:9", "--turn-timeout", "0") == 2
    assert commanded(file, "http://127.0.0.1:9", "--limit", "0") == 2


def test_a_server_that_only_counts_hits_is_asked_after_each_turn(tmp_path: Path) -> None:
    file, out = written(tmp_path, rows("a", ["ls", "ls"])), tmp_path / "replay.json"

    def metrics() -> str:
        hits = {1: 5, 2: 5, 3: 69}[len(server.bodies)]
        return f"vllm:prefix_cache_hits_total 5{hits}\nvllm:num_requests_running 1\n"

    pages = {"/v1/models": lambda: MODELS, "/metrics": metrics}
    with chat_server(says_ls, pages) as server:
        assert commanded(file, server.url, "--out", str(out)) == 0
    summary = json.loads(out.read_text())
    assert [turn["cached_tokens"] for turn in summary["per_turn"]] == [0, 569 - 55]
    assert summary["cache_reuse"] == {"prompt": 14, "within": 514, "across": 0}
