"""Messages and tools as the tokens that a model's chat template makes of them.

A server makes the same: its count of a prompt's tokens is held against these. As vLLM does before
its template (vllm/entrypoints/chat_utils.py), the arguments of calls in the history become objects,
and a message without content gets an empty one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.datasets.agent_sessions import sessions_of
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.datasets.tool_questions import question_of
from mlperf_suite.errors import UsageError, first_line

Json = Mapping[str, Any]
CHATS = "chats"
"""The kind of the runs of benchmarks whose samples are messages."""
EMBEDDED_TEMPLATE = Path(__file__).with_name("embedded_chat.jinja")
"""The embedded model's own template has no place for tools and their results."""


@dataclass(frozen=True, slots=True)
class ChatMessages:
    """Recorded sessions, or questions by themselves. `template`: a file in place of the model's own
    template; None for that. `tool_parser`, `reasoning_parser`: vLLM's names of what reads the
    model's answers; "" for none."""

    template: Path | None = None
    tool_parser: str = ""
    reasoning_parser: str = ""

    def check(self, samples: Sequence[Sample]) -> None:
        """Nothing: what was read are messages."""

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> list[list[int]]:
        """Each sample's prompt as token ids, in order. Raises UsageError as `tokens_of` does."""
        chats = chats_of(samples)
        return [self.tokens_of(messages, tools, tokenizer) for messages, tools in chats]

    def tokens_of(
        self, messages: Sequence[Json], tools: Sequence[Json], tokenizer: Any
    ) -> list[int]:
        """The tokens of one prompt. Raises UsageError if the template refuses it, or there is
        none."""
        template = None if self.template is None else self.template.read_text(encoding="utf-8")
        ready = [_for_template(message) for message in messages]
        return in_template(ready, list(tools) or None, tokenizer, chat_template=template)

    def as_json(self) -> dict[str, object]:
        name = "the model's" if self.template is None else self.template.name
        return {"prompt": "messages and tools", "chat_template": name}


def in_template(
    messages: Sequence[Json], tools: Sequence[Json] | None, tokenizer: Any, **arguments: Any
) -> list[int]:
    """The tokens of messages as they are in a tokenizer's chat template, which gets the arguments.

    Raises UsageError if the template refuses them, or there is none.
    """
    try:
        options = {"add_generation_prompt": True, **arguments, "return_dict": False}
        tokens: list[int] = tokenizer.apply_chat_template(messages, tools=tools, **options)
    # jinja2 raises errors of its own, and transformers ValueError without a template; a template
    # may also do with a tool's schema what Python refuses.
    except Exception as error:
        raise UsageError(f"--model: its chat template fails: {first_line(error)}") from error
    return tokens


def chats_of(samples: Iterable[Sample]) -> Iterator[tuple[Sequence[Json], Sequence[Json]]]:
    """The messages and tools of each sample; of a recorded turn with its history."""
    samples = list(samples)
    if samples and "delay_s" not in json.loads(samples[0].input):
        yield from map(question_of, samples)
        return
    for session in sessions_of(samples):
        for _, messages in session.prompts():
            yield messages, session.tools


def _for_template(message: Json) -> dict[str, Any]:
    return with_objects({**message, "content": message.get("content") or ""}, "{}")


def with_objects(message: Json, empty: str = "") -> dict[str, Any]:
    """A message whose calls have an object as arguments, not its JSON. `empty`: for none."""
    ready = dict(message)
    if calls := message.get("tool_calls"):
        ready["tool_calls"] = [_with_object(call, empty) for call in calls]
    return ready


def _with_object(call: Any, empty: str) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or empty)
    except (ValueError, RecursionError):
        return call
    if not isinstance(arguments, dict):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
