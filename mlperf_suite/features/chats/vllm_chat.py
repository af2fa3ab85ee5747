"""vLLM's own parsers of tool calls and reasoning, for answers of the engine in this process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mlperf_suite.errors import EngineError
from mlperf_suite.features.chats.chat import Json
from mlperf_suite.features.chats.token_chat import ReadAnswer


def vllm_reader(tokenizer: Any, tool_parser: str, reasoning_parser: str = "") -> ReadAnswer:
    """What reads an answer as vLLM's server does with --tool-call-parser and --reasoning-parser.

    `reasoning_parser`: "" for none. Raises EngineError if this vLLM has no parser of that name.
    """
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    try:
        parser_of_tools = ToolParserManager.get_tool_parser(tool_parser)
        names = [reasoning_parser] if reasoning_parser else []
        parsers_of_reasoning = [ReasoningParserManager.get_reasoning_parser(n) for n in names]
    except KeyError as error:
        raise EngineError(f"vLLM has no parser for this model's answers: {error}") from error

    # They log a traceback for each call that is broken off, which an answer may be.
    logging.getLogger("vllm.tool_parsers").setLevel(logging.CRITICAL)

    def read(text: str, tools: Sequence[Json]) -> Mapping[str, Any]:
        fields = {"tools": list(tools), "tool_choice": "auto"} if tools else {}
        request = ChatCompletionRequest(messages=[], model="", **fields)
        reasoning, content = None, text
        for parser in parsers_of_reasoning:
            reasoning, content = parser(tokenizer).extract_reasoning(text, request)
        if not tools:
            return {"reasoning": reasoning, "content": content}
        # A parser keeps the state of one answer.
        parts = parser_of_tools(tokenizer, request.tools).extract_tool_calls(content or "", request)
        calls = [
            {
                "id": call.id,
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in parts.tool_calls
        ]
        return {"reasoning": reasoning, "content": parts.content, "tool_calls": calls}

    return read
