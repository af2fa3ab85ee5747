"""Chat on an engine that takes tokens: times, counts, parsers, and turns that do not end."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import EngineDiedError, UsageError
from mlperf_suite.features.chats.chat import ChatRequest, Json
from mlperf_suite.features.chats.chat_client import ChatTurn
from mlperf_suite.features.chats.token_chat import TokenChat, plain_answer

TOOL = {"type": "function", "function": {"name": "f"}}
EOS = 2


class Letters:
    """A tokenizer whose tokens are characters."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        assert not skip_special_tokens
        return "".join(map(chr, ids))


def encode(messages: Sequence[Json], tools: Sequence[Json]) -> list[int]:
    return [ord(letter) for message in messages for letter in message["content"]]


def ask(
    answer: str,
    read: Callable[[str, Sequence[Json]], Mapping[str, Any]] = plain_answer,
    *,
    ends: bool = True,
    delays: Delays | None = None,
    timeout_s: float = 120.0,
    encoder: Any = encode,
    **engine_options: Any,
) -> ChatTurn:
    tokens = [*map(ord, answer), *([EOS] if ends else [])]
    engine = StandInEngine(delays or Delays(), lambda prompt: tokens, **engine_options)
    chat = TokenChat(engine, encoder, Letters(), (EOS,), read)
    messages = [{"role": "user", "content": "four"}]
    try:
        return asyncio.run(
            chat.ask(ChatRequest(messages, Generation(max_new_tokens=64), [TOOL], timeout_s))
        )
    finally:
        engine.close()


def test_an_answer_has_its_text_its_counts_and_its_times() -> None:
    turn = ask("hello", delays=Delays(0.01, 0.5))
    answer = turn.answer
    assert (turn.failure, answer.content, answer.finish_reason) == ("", "hello", "stop")
    assert (answer.prompt_tokens, answer.completion_tokens, turn.tokens) == (4, 6, 6)
    assert not turn.count_mismatch()
    assert turn.ttft_s and turn.tpot_s and 0.01 <= turn.ttft_s <= turn.latency_s - 0.01
    assert ask("hello", ends=False).answer.finish_reason == "length"


def test_a_parser_gives_calls_and_reasoning() -> None:
    def read(text: str, tools: Sequence[Json]) -> Mapping[str, Any]:
        assert (text, tools) == ("x", [TOOL])
        call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
        return {"reasoning": "why", "content": None, "tool_calls": [call, call]}

    answer = ask("x", read).answer
    assert (answer.reasoning, answer.content, answer.finish_reason) == ("why", "", "tool_calls")
    assert [call.name for call in answer.tool_calls] == ["f", "f"]


@pytest.mark.parametrize("error", [ValueError("bad"), RecursionError("deep")])
def test_a_parser_that_fails_ends_the_turn_alone(error: Exception) -> None:
    def read(text: str, tools: Sequence[Json]) -> Mapping[str, Any]:
        raise error

    assert ask("x", read).failure.startswith("its answer cannot be parsed")


def test_more_calls_than_a_turn_may_have_or_a_template_that_refuses_end_it() -> None:
    def refuse(messages: Sequence[Json], tools: Sequence[Json]) -> list[int]:
        raise UsageError("--model: its chat template fails: no tools")

    call = {"function": {"name": "f", "arguments": "{}"}}
    turn = ask("x", lambda text, tools: {"tool_calls": [call] * 129})
    assert turn.failure == "asked for more than 128 tool calls"
    assert "no tools" in ask("x", encoder=refuse).failure


def test_a_turn_that_does_not_end_in_time_is_aborted() -> None:
    turn = ask("x", delays=Delays(0.0, 600.0), timeout_s=1.0)
    assert turn.failure == "did not end its answer within 1 s"


def test_an_engine_that_dies_ends_more_than_the_turn() -> None:
    with pytest.raises(EngineDiedError, match="died"):
        ask("x", fail_after=0)
