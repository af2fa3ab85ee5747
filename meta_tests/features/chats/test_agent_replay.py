"""Recorded sessions asked again: the history that is sent, missing turns, figures and the score."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.chats.recorded_sessions import TOOLS, rows, says_ls, written
from meta_tests.features.servers.chat_stand_in import Events, chat_stand_in, delta
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.chats.agent_replay import (
    TurnFigures,
    cache_reuse,
    replay,
    replay_summary,
)
from mlperf_suite.features.chats.agent_sessions import read_sessions
from mlperf_suite.features.chats.chat_client import ChatClient
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
        (lambda lines: [[1]], "line 1: not an object"),
        (lambda lines: [*lines[:2], lines[2] | {"role": "user"}, lines[3]], "is neither a user's"),
        (lambda lines: [lines[0] | {"turn": "1"}], "line 1: needs a text"),
        (lambda lines: [lines[0], lines[1] | {"role": "user"}], "does not answer"),
        (lambda lines: [*lines[:2], lines[2] | {"tool_results": [1]}, lines[3]], "list of objects"),
        (lambda lines: [*lines[:2], lines[2] | {"tool_results": [{}]}, lines[3]], "lacks"),
    ],
)
def test_files_that_cannot_be_replayed(tmp_path: Path, change: Any, why: str) -> None:
    with pytest.raises(DatasetError, match=why):
        read_sessions(written(tmp_path, change(rows("a", ["ls", "ls"]))))
