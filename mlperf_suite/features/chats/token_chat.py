"""Chat on an engine that takes tokens: messages through the chat template, answers through parsers.

The same request and the same answer as on a server's route of chat completions. TTFT ends with the
first token, where a server's ends with the first piece that its parser lets through.

The parsers of tool calls and reasoning are vLLM's own, for the engine in this process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from mlperf_suite.engines.hang_detector import POLL_S, HangDetector
from mlperf_suite.engines.protocol import SILENCE_S, CountsCachedTokens, Engine, Request, Tokens
from mlperf_suite.errors import EngineDiedError, EngineError, UsageError
from mlperf_suite.features.chats.chat import ChatAnswer, ChatRequest, Json
from mlperf_suite.features.chats.chat_client import ChatTurn
from mlperf_suite.features.servers.adapters import AnswerError

Encode = Callable[[Sequence[Json], Sequence[Json]], Sequence[int]]
"""The tokens of messages and tools. Raises UsageError if the template refuses them."""
ReadAnswer = Callable[[str, Sequence[Json]], Mapping[str, Any]]
"""A message's `content`, `reasoning` and `tool_calls` in a text that answers with these tools; what
it raises ends the turn."""


class TokenChat:
    """Asks an engine for one answer at a time. `tokenizer` and `end_ids`: the model's own."""

    def __init__(
        self,
        engine: Engine,
        encode: Encode,
        tokenizer: Any,
        end_ids: Sequence[int],
        read: ReadAnswer,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._engine, self._encode, self._read = engine, encode, read
        self._tokenizer, self._end_ids = tokenizer, frozenset(end_ids)
        self._silence_s = silence_s

    def close(self) -> None:
        """Nothing: the engine belongs to the runs."""

    async def ask(self, request: ChatRequest) -> ChatTurn:
        """Ask, and wait for the end of the answer. Raises EngineDiedError if the engine dies or
        hangs: no later turn can be answered either. The salt is not used, since the engine of runs
        has no prefix cache."""
        tools = request.tools
        answer, sent = ChatAnswer(), time.monotonic()
        try:
            prompt = self._encode(request.messages, tools)
        except UsageError as error:
            return ChatTurn(answer, sent, None, 0.0, str(error))
        cached = self._cached
        turn = _Turn(asyncio.get_running_loop())
        generation = replace(request.sampling, min_new_tokens=0, top_k=0)
        sent = time.monotonic()
        self._engine.submit([Request(0, prompt)], generation, turn, stream=True)
        failure = await self._wait(turn, request.timeout_s)
        if not failure:
            failure = self._take(answer, turn.token_ids, tools, len(prompt), self._cached - cached)
        ttft_s = None if turn.first is None else turn.first - sent
        return ChatTurn(answer, sent, ttft_s, turn.end - sent, failure)

    @property
    def _cached(self) -> int:
        engine = self._engine
        return engine.cached_prompt_tokens if isinstance(engine, CountsCachedTokens) else 0

    async def _wait(self, turn: _Turn, timeout_s: float) -> str:
        """Why the turn has no answer; empty if it has one."""
        watch, until = HangDetector(self._engine, self._silence_s), time.monotonic() + timeout_s
        while not turn.ended.is_set():
            left_s = until - time.monotonic()
            if left_s <= 0:
                self._engine.abort()
                turn.end = time.monotonic()
                return f"did not end its answer within {timeout_s:g} s"
            try:
                await asyncio.wait_for(turn.ended.wait(), min(POLL_S, left_s))
            except TimeoutError:
                if why := watch.hangs(turn.first is None, 1, "requests"):
                    watch.end()
                    raise EngineDiedError(why) from None
        if isinstance(turn.error, EngineDiedError):
            raise turn.error
        return str(turn.error or "")

    def _take(
        self,
        answer: ChatAnswer,
        token_ids: Sequence[int],
        tools: Sequence[Json],
        prompt_tokens: int,
        cached_tokens: int,
    ) -> str:
        """Put the output into the answer, as one event of a stream; why it cannot be, or empty."""
        own = [token for token in token_ids if token not in self._end_ids]
        ended = len(own) < len(token_ids)
        text = self._tokenizer.decode(own, skip_special_tokens=False)
        try:
            message = self._read(text, tools)
        # A parser is another project's code on untrusted text.
        except Exception as error:
            return f"its answer cannot be parsed: {type(error).__name__}: {error}"
        calls = [{"index": i, **call} for i, call in enumerate(message.get("tool_calls") or ())]
        finish = "tool_calls" if calls else "stop" if ended else "length"
        delta = {**message, "tool_calls": calls}
        event = {
            "choices": [{"delta": delta, "finish_reason": finish, "token_ids": list(token_ids)}],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": len(token_ids),
                "prompt_tokens_details": {"cached_tokens": cached_tokens},
            },
        }
        try:
            answer.read(msgspec.json.encode(event))
        except AnswerError as error:
            return str(error)
        return ""


class _Turn:
    """The listener of one request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ended = asyncio.Event()
        self.first: float | None = None
        self.end = time.monotonic()
        self.token_ids: list[int] = []
        self.error: EngineError | None = None

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        self.first = time.monotonic()

    def finished(self, answers: Sequence[Tokens]) -> None:
        self.end = time.monotonic()
        self.token_ids = [token for _, ids in answers for token in ids]
        self._over()

    def failed(self, tag: int, error: EngineError) -> None:
        self.end, self.error = time.monotonic(), error
        self._over()

    def _over(self) -> None:
        # The loop is gone if nobody waits any longer.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ended.set)


def plain_answer(text: str, tools: Sequence[Json]) -> Mapping[str, Any]:
    """An answer without a parser: all of it is content."""
    return {"content": text}


def vllm_reader(tokenizer: Any, tool_parser: str, reasoning_parser: str = "") -> ReadAnswer:
    """Reads an answer as vLLM's server does with --tool-call-parser and --reasoning-parser.

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
