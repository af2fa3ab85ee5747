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

from mlperf_suite.benchmarks.prompts import in_template, with_objects
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.chats.agent_sessions import sessions_of
from mlperf_suite.features.chats.function_calls import question_of

Json = Mapping[str, Any]
CHATS = "chats"
"""The kind of the runs of benchmarks whose samples are messages."""
EMBEDDED_TEMPLATE = Path(__file__).with_name("embedded_chat.jinja")
"""The embedded model's own template has no place for tools and their results."""


@dataclass(frozen=True, slots=True)
class ChatMessages:
    """Recorded sessions, or questions by themselves. `template`: a file in place of the model's own
    template; None for that. `tool_parser`, `reasoning_parser`: vLLM's names of the parsers of the
    model's answers; "" for none."""

    template: Path | None = None
    tool_parser: str = ""
    reasoning_parser: str = ""

    def check(self, samples: Sequence[Sample]) -> None:
        """Nothing: the samples are messages already."""

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
        full = ({**message, "content": message.get("content") or ""} for message in messages)
        ready = [with_objects(message, "{}") for message in full]
        return in_template(ready, list(tools) or None, tokenizer, chat_template=template)

    def as_json(self) -> dict[str, object]:
        name = "the model's" if self.template is None else self.template.name
        return {"prompt": "messages and tools", "chat_template": name}


def chats_of(samples: Iterable[Sample]) -> Iterator[tuple[Sequence[Json], Sequence[Json]]]:
    """The messages and tools of each sample; of a recorded turn with its history."""
    samples = list(samples)
    if samples and "delay_s" not in json.loads(samples[0].input):
        yield from map(question_of, samples)
        return
    for session in sessions_of(samples):
        for _, messages in session.prompts():
            yield messages, session.tools
