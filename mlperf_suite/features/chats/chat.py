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

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import SuiteError
from mlperf_suite.features.servers.adapters import (
    AnswerError,
    CalledFunction,
    CallPiece,
    Chat,
    Choice,
    Delta,
    PartialAnswer,
)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One turn to be answered. `sampling`: its length counts reasoning too; the chat route has no
    top_k. `timeout_s`: from sending it to the answer's end. `cache_salt`: requests with the same
    one may share a KV cache, for a server that knows the field; "" sends none."""

    messages: Sequence[Json]
    sampling: Generation
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


class ChatAnswer(PartialAnswer):
    """An answer as received so far, with its reasoning and tool calls. Texts are kept in pieces
    until they are wanted."""

    def __init__(self, limits: ChatLimits | None = None) -> None:
        super().__init__()
        self.limits = limits or ChatLimits()
        self._content = _Text("content", self.limits.content)
        self._reasoning = _Text("reasoning", self.limits.reasoning)
        self._calls: dict[int, _Call] = {}
        self._came, self._empty_events = False, 0

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
        self._came = False
        _WHOLE.read(event, self)
        if len(self.token_ids) > self.limits.content + self.limits.reasoning:
            raise AnswerError(f"sent {len(self.token_ids):,} tokens without an end")
        if not self._came:
            self._empty_events += 1
            if self._empty_events > self.limits.empty_events:
                raise AnswerError(f"sent {self._empty_events:,} events that bring nothing")
        return self._came

    def take(self, delta: Delta) -> None:
        """Add a piece of the answer. Raises AnswerError beyond the limits."""
        # A server may send both names for the same text.
        came = self._reasoning.add(delta.reasoning or delta.reasoning_content)
        came = self._content.add(delta.content) or came
        for position, piece in enumerate(delta.tool_calls or ()):
            came = self._call(piece, position).add(piece) or came
        self._came |= came

    def _call(self, piece: CallPiece, position: int) -> _Call:
        """The call that a piece belongs to; without an index, by its place in the event."""
        index = position if piece.index is None else piece.index
        if index not in self._calls:
            if len(self._calls) >= self.limits.calls:
                raise AnswerError(f"asked for more than {self.limits.calls} tool calls")
            self._calls[index] = _Call(self.limits.arguments)
        return self._calls[index]


class _Whole(Chat):
    """Chat completions whose reasoning and tool calls are of the answer."""

    def take(self, choice: Choice, answer: PartialAnswer) -> None:
        delta = choice.delta or choice.message
        if delta is not None and isinstance(answer, ChatAnswer):
            answer.take(delta)


_WHOLE = _Whole()


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

    def add(self, piece: CallPiece) -> bool:
        function = piece.function or CalledFunction()
        self._id = self._id or (piece.id or "")[: self._MAX_NAME_LENGTH]
        # vLLM sends the name once; a server that repeats it must not double it.
        named = bool(function.name) and not self._name
        self._name = self._name or (function.name or "")[: self._MAX_NAME_LENGTH]
        return self.arguments.add(function.arguments) or named

    def complete(self) -> ToolCall:
        return ToolCall(self._id, self._name, self.arguments.joined())


_json = msgspec.json.Encoder()


def chat_body(request: ChatRequest, model: str, fields: Json | None = None) -> bytes:
    """The JSON of a request. `fields`: those that this kind of server adds to OpenAI's. Raises
    SuiteError for messages or tools that are nested too deeply."""
    sampling, tools = request.sampling, request.tools
    body: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "max_tokens": sampling.max_new_tokens,
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
