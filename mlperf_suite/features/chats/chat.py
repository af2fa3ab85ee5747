"""Chat completions: the body of a request, and the answer that its stream makes.

Sources: OpenAI's `/v1/chat/completions`; vllm/entrypoints/openai/chat_completion/protocol.py of
vLLM 0.32, which names reasoning `reasoning`; others name it `reasoning_content`.

An answer is untrusted text: it is joined and counted, never evaluated, and limited in size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mlperf_suite.errors import SuiteError
from mlperf_suite.features.servers.adapters import (
    AnswerError,
    error_line,
    one_line,
)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatSampling:
    """How the tokens of an answer are chosen; `max_tokens` counts reasoning too."""

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = 42


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One turn to be answered. `timeout_s`: from sending it to the answer's end. `cache_salt`:
    requests with the same one may share a KV cache, for a server that knows the field; "" sends
    none."""

    messages: Sequence[Json]
    sampling: ChatSampling
    tools: Sequence[Json] = ()
    timeout_s: float = 600.0
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """What an answer may have at most: characters of its content, its reasoning and the arguments
    of one tool call, tool calls, and events of its stream that bring nothing."""

    content: int = 1_000_000
    reasoning: int = 2_000_000
    arguments: int = 1_000_000
    calls: int = 128
    empty_events: int = 10_000


@dataclass(slots=True)
class ToolCall:
    """A call that the model asks for. `arguments` is the text that came, JSON or not."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def as_json(self) -> dict[str, Any]:
        """As a message of the assistant has it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


class ChatAnswer:
    """An answer as received so far. `prompt_tokens` and `completion_tokens` as the server counts
    them; `token_ids` if it gives them. Texts are kept in pieces until they are wanted."""

    def __init__(self, limits: ChatLimits | None = None) -> None:
        self.limits = limits or ChatLimits()
        self.finish_reason: str | None = None
        self.model: str | None = None
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.token_ids: list[int] = []
        self._content = _Text("content", self.limits.content)
        self._reasoning = _Text("reasoning", self.limits.reasoning)
        self._calls: dict[int, _Call] = {}
        self._empty_events = 0

    @property
    def content(self) -> str:
        return self._content.joined()

    @property
    def reasoning(self) -> str:
        return self._reasoning.joined()

    @property
    def length(self) -> int:
        """In characters."""
        calls = sum(call.arguments.length for call in self._calls.values())
        return self._content.length + self._reasoning.length + calls

    @property
    def tool_calls(self) -> list[ToolCall]:
        """In the order of their indices."""
        return [self._calls[index].complete() for index in sorted(self._calls)]

    def read(self, event: bytes) -> bool:
        """Add one event of the stream; whether it brought content, reasoning or a tool call.

        Raises AnswerError if it is none, or if the answer grows beyond its limits.
        """
        chunk = _decoded(event)
        self.model = chunk.model or self.model
        came = False
        for choice in chunk.choices or ():
            came = self._add(choice) or came
        if chunk.usage is not None:
            self._count(chunk.usage)
        if not came:
            self._empty_events += 1
            if self._empty_events > self.limits.empty_events:
                raise AnswerError(f"sent {self._empty_events:,} events that bring nothing")
        return came

    def _add(self, choice: _Choice) -> bool:
        if choice.index:
            raise AnswerError("sent several answers to a request for one")
        self.finish_reason = choice.finish_reason or self.finish_reason
        self.token_ids += choice.token_ids or ()
        if len(self.token_ids) > self.limits.content + self.limits.reasoning:
            raise AnswerError(f"sent {len(self.token_ids):,} tokens without an end")
        delta = choice.delta or choice.message
        if delta is None:
            return False
        # A server may send both names for the same text.
        came = self._reasoning.add(delta.reasoning or delta.reasoning_content)
        came = self._content.add(delta.content) or came
        for position, piece in enumerate(delta.tool_calls or ()):
            came = self._call(piece, position).add(piece) or came
        return came

    def _call(self, piece: _CallPiece, position: int) -> _Call:
        """The call that a piece belongs to; without an index, by its place in the event."""
        index = position if piece.index is None else piece.index
        if index not in self._calls:
            if len(self._calls) >= self.limits.calls:
                raise AnswerError(f"asked for more than {self.limits.calls} tool calls")
            self._calls[index] = _Call(self.limits.arguments)
        return self._calls[index]

    def _count(self, usage: _Usage) -> None:
        details = usage.prompt_tokens_details
        self.prompt_tokens = usage.prompt_tokens
        self.completion_tokens = usage.completion_tokens
        self.cached_tokens = details.cached_tokens if details else None


class _Text:
    """A text that comes in pieces, with at most `most` characters."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._pieces: list[str] = []
        self.length = 0

    def add(self, piece: str | None) -> bool:
        if not piece:
            return False
        self.length += len(piece)
        if self.length > self._most:
            raise AnswerError(f"sent more than {self._most:,} characters of {self._name}")
        self._pieces.append(piece)
        return True

    def joined(self) -> str:
        return "".join(self._pieces)


class _Call:
    """A tool call that comes in pieces: the first has its id and name."""

    _MAX_NAME_LENGTH = 1_000

    def __init__(self, most: int) -> None:
        self._id = self._name = ""
        self.arguments = _Text("a tool call's arguments", most)

    def add(self, piece: _CallPiece) -> bool:
        function = piece.function or _Function()
        self._id = self._id or (piece.id or "")[: self._MAX_NAME_LENGTH]
        # vLLM sends the name once; a server that repeats it must not double it.
        named = bool(function.name) and not self._name
        self._name = self._name or (function.name or "")[: self._MAX_NAME_LENGTH]
        return self.arguments.add(function.arguments) or named

    def complete(self) -> ToolCall:
        return ToolCall(self._id, self._name, self.arguments.joined())


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_CallPiece] | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    model: str | None = None
    error: Any = None


_chunk = msgspec.json.Decoder(_Chunk)
_json = msgspec.json.Encoder()


def _decoded(event: bytes) -> _Chunk:
    try:
        chunk = _chunk.decode(event)
    except msgspec.ValidationError as error:
        raise AnswerError(f"sent JSON that is not a chat completion: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(f"sent invalid JSON: {one_line(event)}") from error
    if chunk.error or (chunk.choices is None and chunk.usage is None):
        raise AnswerError(error_line(event))
    return chunk


def chat_body(request: ChatRequest, model: str, fields: Json | None = None) -> bytes:
    """The JSON of a request. `fields`: those that this kind of server adds to OpenAI's. Raises
    SuiteError for messages or tools that are nested too deeply."""
    sampling, tools = request.sampling, request.tools
    body: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "n": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({} if sampling.seed is None else {"seed": sampling.seed}),
        # Some servers stall where tools come without a choice.
        **({"tools": list(tools), "tool_choice": "auto"} if tools else {}),
        **({"cache_salt": request.cache_salt} if request.cache_salt else {}),
        **(fields or {}),
    }
    try:
        return _json.encode(body)
    except RecursionError:
        raise SuiteError("a message or a tool is nested too deeply to be sent") from None
