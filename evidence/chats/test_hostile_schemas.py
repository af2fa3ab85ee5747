"""Untrusted tool schemas and calls: each gets a verdict, and nothing of them runs."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from meta_tests.features.servers.chat_stand_in import chat_stand_in, delta, last, same
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import DatasetError, SuiteError, UsageError
from mlperf_suite.features.chats.agent_sessions import read_sessions
from mlperf_suite.features.chats.bash_calls import programs_of
from mlperf_suite.features.chats.chat import ChatRequest
from mlperf_suite.features.chats.chat_client import ChatClient
from mlperf_suite.features.chats.chat_prompts import EMBEDDED_TEMPLATE, ChatMessages
from mlperf_suite.features.servers.config import parse_endpoint

DEEP = 100_000


def nested(levels: int) -> Any:
    """A schema whose properties have properties, so many levels deep."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def tool(parameters: Any, description: str = "") -> dict[str, Any]:
    function = {"name": "f", "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


RECURSIVE = {"$defs": {"n": {"$ref": "#/$defs/n"}}, "$ref": "#/$defs/n"}
CODE = "{{ ''.__class__.__mro__[1].__subclasses__() }}{% for i in range(10**9) %}x{% endfor %}"
HUGE = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(50_000)}}
HARMLESS = {"a recursive $ref": tool(RECURSIVE), "code": tool({}, CODE), "huge": tool(HUGE)}


class Characters:
    """A tokenizer that renders as transformers does, and counts characters."""

    def apply_chat_template(
        self, messages: Any, *, tools: Any, chat_template: str, **options: Any
    ) -> list[int]:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = json.dumps
        text = environment.from_string(chat_template).render(messages=messages, tools=tools)
        return [ord(letter) for letter in text]


MESSAGES = [{"role": "user", "content": "hi"}]
PROMPT = ChatMessages(EMBEDDED_TEMPLATE)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_schema_is_text_for_the_template(name: str) -> None:
    tokens = PROMPT.tokens_of(MESSAGES, [HARMLESS[name]], Characters())
    text = "".join(map(chr, tokens))
    assert json.dumps(HARMLESS[name]["function"]) in text
    assert "<class" not in text


def test_a_schema_nested_too_deeply_is_refused_in_a_line() -> None:
    with pytest.raises(UsageError, match="its chat template fails: maximum recursion depth"):
        PROMPT.tokens_of(MESSAGES, [tool(nested(DEEP))], Characters())


def ask_with(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The bodies that a server is sent."""

    async def run() -> list[dict[str, Any]]:
        async with chat_stand_in(same([delta(content="a"), *last()])) as server:
            client = ChatClient(parse_endpoint(server.url), "m")
            turn = await client.ask(ChatRequest(MESSAGES, Generation(1), [schema], 30.0))
            assert not turn.failure
            return server.bodies

    return asyncio.run(run())


def test_a_schema_reaches_a_server_as_it_is() -> None:
    for schema in HARMLESS.values():
        assert ask_with(schema)[0]["tools"] == [schema]


def test_a_schema_nested_too_deeply_is_neither_sent_nor_read(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="nested too deeply"):
        ask_with(tool(nested(DEEP)))
    path = tmp_path / "a.jsonl"
    deep = '{"a":' * DEEP + "1" + "}" * DEEP
    head = '{"conversation_id": "c", "turn": 1, "role": "user", "content": "x", "tools": ['
    path.write_text(f"{head}{deep}]}}\n")
    with pytest.raises(DatasetError, match="nested too deeply"):
        read_sessions(path)


@pytest.mark.parametrize("text", ['"\\' * 10_000, "[" * 100_000, "A=1 " * 5_000])
def test_the_programs_of_a_hostile_call_take_no_time(text: str) -> None:
    began = time.process_time()
    for arguments in (json.dumps({"command": text}), text):
        programs_of([{"function": {"name": "bash", "arguments": arguments}}])
    assert time.process_time() - began < 20
