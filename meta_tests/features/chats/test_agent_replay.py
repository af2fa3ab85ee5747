"""Recorded sessions asked again: the history that is sent, missing turns, figures and the score."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pytest import CaptureFixture

from meta_tests.features.chats.recorded_sessions import MODELS, TOOLS, rows, written
from meta_tests.reports.outputs import page_rows
from meta_tests.servers.chat_stand_in import (
    Events,
    call_piece,
    chat_server,
    chat_stand_in,
    delta,
    last,
)
from mlperf_suite.__main__ import main
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.chats.agent_replay import (
    TurnFigures,
    cache_reuse,
    replay,
    replay_summary,
)
from mlperf_suite.features.chats.agent_sessions import read_sessions
from mlperf_suite.features.chats.chat_client import ChatClient
from mlperf_suite.features.replay.recorded_sessions import replay_lines
from mlperf_suite.features.servers.config import parse_endpoint


def replayed(
    file: Path, answer: Any, **options: Any
) -> tuple[list[TurnFigures], list[dict[str, Any]]]:
    async def run() -> tuple[list[TurnFigures], list[dict[str, Any]]]:
        async with chat_stand_in(answer) as server:
            client = ChatClient(parse_endpoint(server.url), "m")
            turns = await replay(client, read_sessions(file), **options)
            return turns, server.bodies

    return asyncio.run(run())


def says_ls(body: dict[str, Any]) -> Events:
    return [call_piece(0, '{"comm', "bash"), call_piece(0, 'and": "ls"}'), *last("tool_calls")]


def test_the_history_has_the_recorded_answers(tmp_path: Path) -> None:
    file = written(tmp_path, rows("a", ["cat x", "ls", "grep y"]))
    _, bodies = replayed(file, says_ls)
    roles = [[message["role"] for message in body["messages"]] for body in bodies]
    assert roles[0] == ["system", "user"]
    assert roles[2] == [*roles[0], "assistant", "tool", "assistant", "tool"]
    answer = bodies[1]["messages"][2]
    assert (answer["content"], answer["reasoning_content"]) == (None, "Hm.")
    assert answer["tool_calls"][0]["function"]["arguments"] == '{"command": "cat x"}'
    assert bodies[1]["messages"][3] == {"role": "tool", "tool_call_id": "c0", "content": "done"}
    assert all(body["tools"] == TOOLS for body in bodies)
    assert {(b["temperature"], b["seed"], b["max_tokens"]) for b in bodies} == {(0.0, 42, 1024)}


def test_the_score_is_the_mean_of_turns_that_can_be_scored(tmp_path: Path) -> None:
    file = written(tmp_path, rows("a", ["ls", "ls | wc", "unknown", "cat x"]))
    turns, _ = replayed(file, says_ls)
    assert [turn.score for turn in turns] == [1.0, 0.5, None, 0.0]
    summary = replay_summary(turns)
    assert (summary["score"], summary["scored"], summary["missing"]) == (0.5, 3, 0)
    assert "inline score: 0.5000 of 3 turns" in "\n".join(replay_lines(summary))


def test_a_turn_without_an_answer_ends_its_conversation_alone(tmp_path: Path) -> None:
    def fails_once(body: dict[str, Any]) -> Events:
        fails = len(body["messages"]) == 4
        return [delta(content="half")] if fails else says_ls(body)

    file = written(tmp_path, rows("a", ["ls", "ls", "ls"]) + rows("b", ["ls"]))
    turns, bodies = replayed(file, fails_once)
    assert len(bodies) == 3
    assert [bool(turn.failure) for turn in turns] == [False, True, True, False]
    assert turns[2].failure == "not asked, since turn 2 has no answer"
    summary = replay_summary(turns)
    assert (summary["missing"], summary["score"]) == (2, 0.5)


def test_delays_of_tools_are_kept_or_dropped(tmp_path: Path, monkeypatch: Any) -> None:
    waits: list[float] = []
    real = asyncio.sleep

    async def sleep(delay: float) -> None:
        waits.append(delay)
        await real(0)

    monkeypatch.setattr("mlperf_suite.features.chats.agent_replay.asyncio.sleep", sleep)
    for delays in (True, False):
        waits.clear()
        replayed(written(tmp_path, rows("a", ["ls", "ls"])), says_ls, delays=delays)
        assert (0.05 in waits) is delays


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
    assert "KV reuse: not judged" in capsys.readouterr().out


def test_a_server_that_is_gone_is_named(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    file, out = written(tmp_path, rows("a", ["ls", "ls"])), tmp_path / "replay.json"
    assert commanded(file, "http://127.0.0.1:9", "--out", str(out)) == 2
    assert "refused the connection" in capsys.readouterr().err
    assert not out.exists()
    assert commanded(file, "http://127.0.0.1:9", "--turn-timeout", "0") == 2
    assert commanded(file, "http://127.0.0.1:9", "--limit", "0") == 2


def cached(count: int) -> Events:
    usage: dict[str, Any] = {"prompt_tokens": 100, "completion_tokens": 3}
    usage |= {"prompt_tokens_details": {"cached_tokens": count}}
    ended = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}
    return [ended, {"choices": [], "usage": usage}]


def test_reuse_across_conversations_is_told_apart(tmp_path: Path) -> None:
    file = written(tmp_path, rows("a", ["ls", "ls"]) + rows("b", ["ls", "ls"]))
    words = "200 of 400 prompt tokens, across conversations none: as allowed"
    for of_first, said in ((0, words), (9, "18: not allowed")):

        def answer(body: dict[str, Any], of_first: int = of_first) -> Events:
            return cached(100 if len(body["messages"]) > 2 else of_first)

        turns, bodies = replayed(file, answer, salted=True)
        assert said in cache_reuse(turns).words()
        salts = [body["cache_salt"] for body in bodies]
        assert salts[0] == salts[1] != salts[2] == salts[3] and len(salts[0]) == 16


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


def test_figures_are_grouped_by_turn_and_context() -> None:
    turns = [
        TurnFigures("a", position, context_tokens=100 * position, ttft_ms=float(position))
        for position in range(1, 26)
    ]
    summary = replay_summary(turns)
    counts = {name: group["turns"] for name, group in summary["by_turn"].items()}
    assert counts == {"1": 1, "2 to 10": 9, "11 to 20": 10, "21 to 30": 5}
    contexts = {name: group["turns"] for name, group in summary["by_context"].items()}
    assert contexts == {"up to 2,048": 20, "up to 4,096": 5}
    assert summary["all"]["ttft_ms"] == {"p50": 13.0, "p90": 23.0, "p99": 25.0}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lines: lines[1:], "turns are not 1, 2, 3"),
        (lambda lines: [], "has no conversation"),
        (lambda lines: [lines[0] | {"turn": "1"}], "line 1: needs a text"),
        (lambda lines: [lines[0], lines[1] | {"role": "user"}], "does not answer"),
        (lambda lines: [*lines[:2], lines[2] | {"tool_results": [1]}, lines[3]], "list of objects"),
        (lambda lines: [*lines[:2], lines[2] | {"tool_results": [{}]}, lines[3]], "lacks"),
    ],
)
def test_files_that_cannot_be_replayed(tmp_path: Path, change: Any, why: str) -> None:
    with pytest.raises(DatasetError, match=why):
        read_sessions(written(tmp_path, change(rows("a", ["ls", "ls"]))))
