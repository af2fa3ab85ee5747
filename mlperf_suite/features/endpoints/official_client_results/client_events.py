"""The events of a run of the official HTTP client, counted again.

Sources: metrics_aggregator/metrics_table.py and aggregator.py of github.com/mlcommons/endpoints:
which requests are tracked, what the windows are, and which events a series takes.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mlperf_suite.features.endpoints.official_client_results.event_lines import (
    TEXTS_AT_ONCE,
    AnswerText,
    Event,
    Message,
    TokenCounts,
    answer_text,
    events_in,
    messages_of,
)
from mlperf_suite.features.endpoints.official_client_results.sent_prompts import (
    Decoding,
    SentPrompt,
    SentPrompts,
)

NO_TOKENIZER = "the model's tokenizer is not at hand"
_STRUCTURED = "answers with reasoning or tool calls, and no chat template at hand that takes them"
_MESSAGES = "prompts of messages, and no chat template at hand that takes them"


class ChatCounts(Protocol):
    """Counts tokens in the model's chat template; None for what it does not take."""

    def prompt(self, chat: Sequence[Any]) -> int | None:
        """Of the `chat` of a prompt."""

    def answer(self, message: Message) -> int | None:
        """Of a message of the assistant."""


@dataclass(slots=True)
class RunEvents:
    """What the tracked requests of events.jsonl amount to; all times in ns.

    `duration_ns`: from each start of tracking to the end of its last request. `window_ns`: from
    the first request to the end of the last issued of those that ended. `finish_reasons`: by the
    servers' words. The series are sorted. `prompts`: of the tracked requests; `earlier_prompts`,
    `later_prompts`: of those before and after them, a warm-up's and an accuracy run's. `sessions`:
    how many began. `gaps`: between one request and the next, their number,
    sum and sum of squares.

    `lengths` and `tpot`: of the answers in tokens, in tokens and ns, where a tokenizer was there to
    count them; `inputs`: of the prompts in tokens. `uncounted`, `uncounted_inputs`: why they were
    not counted, in one line; "" if they were.
    """

    issued: int = 0
    completed: int = 0
    failed: int = 0
    duration_ns: int = 0
    window_ns: int = 0
    finish_reasons: Counter[str] = field(default_factory=Counter)
    ttft: array[int] = field(default_factory=lambda: array("q"))
    latency: array[int] = field(default_factory=lambda: array("q"))
    lengths: array[int] = field(default_factory=lambda: array("q"))
    tpot: array[float] = field(default_factory=lambda: array("d"))
    inputs: array[int] = field(default_factory=lambda: array("q"))
    uncounted: str = ""
    uncounted_inputs: str = ""
    prompts: SentPrompts = field(default_factory=SentPrompts)
    earlier_prompts: SentPrompts = field(default_factory=SentPrompts)
    later_prompts: SentPrompts = field(default_factory=SentPrompts)
    sessions: int = 0
    gaps: list[int] = field(default_factory=lambda: [0, 0, 0])

    @property
    def gap_variation(self) -> float | None:
        """The standard deviation of the gaps over their mean, 1 at Poisson times; None if nothing
        was issued over time."""
        count, total, squares = self.gaps
        return math.sqrt(max(0, count * squares - total * total)) / total if total > 0 else None


class _Tracking:
    """Counts events in the order of the file."""

    def __init__(
        self,
        count_tokens: TokenCounts | None,
        decode: Decoding | None,
        chat: ChatCounts | None,
    ) -> None:
        self.events = RunEvents(
            uncounted="" if count_tokens else NO_TOKENIZER,
            prompts=SentPrompts(decode),
            later_prompts=SentPrompts(decode),
        )
        self._count_tokens, self._chat = count_tokens, chat
        self._texts: list[tuple[AnswerText, int | None]] = []
        self._prompts: list[str] = []
        self._firsts: dict[str, int] = {}
        self._on = False
        self._blocks: list[list[int]] = []
        self._open: dict[str, tuple[int, list[int]]] = {}
        self._first_ns: int | None = None
        self._last_issue_ns = -1
        self._before_ns: int | None = None

    def take(self, event: Event) -> None:
        kind, uuid, now = event.event_type, event.sample_uuid, event.timestamp_ns
        if kind == "session.start_performance_tracking" and not self._on:
            self._on, self._before_ns = True, None
            self._blocks.append([now, now])
        elif kind == "session.stop_performance_tracking":
            self._on = False
        elif kind == "sample.issued" and self._on and uuid:
            self.events.issued += 1
            self._open[uuid] = now, self._blocks[-1]
            self._first_ns = now if self._first_ns is None else self._first_ns
            self._take_gap(now)
            self._take_prompt(self.events.prompts.add(event.data, event.conversation_id or ""))
        elif kind == "sample.issued":
            events = self.events
            (events.later_prompts if self._blocks else events.earlier_prompts).add(event.data)
        elif kind == "session.started":
            self.events.sessions += 1
        elif uuid in self._open:
            self._on_request(event, *self._open[uuid])

    def _take_gap(self, now: int) -> None:
        if self._before_ns is not None:
            gap = now - self._before_ns
            more = (1, gap, gap * gap)
            self.events.gaps = [a + b for a, b in zip(self.events.gaps, more, strict=True)]
        self._before_ns = now

    def _on_request(self, event: Event, issued_ns: int, block: list[int]) -> None:
        kind, now = event.event_type, event.timestamp_ns
        if kind == "sample.recv_first":
            self.events.ttft.append(now - issued_ns)
            self._firsts[event.sample_uuid] = now
        elif kind.startswith("error."):
            self.events.failed += 1
        elif kind == "sample.complete":
            del self._open[event.sample_uuid]
            self._take_answer(event)
            self.events.completed += 1
            self.events.latency.append(now - issued_ns)
            if event.finish_reason is not None:
                self.events.finish_reasons[event.finish_reason] += 1
            block[1] = max(block[1], now)
            if issued_ns > self._last_issue_ns:
                self._last_issue_ns = issued_ns
                self.events.window_ns = max(0, now - (self._first_ns or 0))

    def _take_prompt(self, prompt: SentPrompt) -> None:
        if prompt.token_ids is not None:
            self.events.inputs.append(len(prompt.token_ids))
        elif isinstance(prompt.text, str) and prompt.text:
            self._prompts.append(prompt.text)
            if self._count_tokens is None:
                self.events.uncounted_inputs = NO_TOKENIZER
                self._prompts.clear()
        elif prompt.chat and not self.events.uncounted_inputs:
            count = self._chat.prompt(prompt.chat) if self._chat else None
            if count is None:
                self.events.uncounted_inputs = _MESSAGES
            else:
                self.events.inputs.append(count)
        if len(self._prompts) >= TEXTS_AT_ONCE:
            self._count()

    def _take_answer(self, event: Event) -> None:
        first_ns = self._firsts.pop(event.sample_uuid, None)
        if self._count_tokens is None or self.events.uncounted:
            return
        text, time_ns = answer_text(event.data), None
        if first_ns is not None:
            time_ns = event.timestamp_ns - first_ns
        if text.parts is not None:
            self._take_message(text.parts, time_ns)
        else:
            self._texts.append((text, time_ns))
        if len(self._texts) >= TEXTS_AT_ONCE:
            self._count()

    def _take_message(self, parts: tuple[Any, Any, Any], time_ns: int | None) -> None:
        """Count an answer with reasoning or tool calls."""
        try:
            counts = [self._chat.answer(m) if self._chat else None for m in messages_of(parts)]
        # Untrusted tool calls.
        except (AttributeError, TypeError):
            counts = [None]
        if None in counts:
            self.events.uncounted = _STRUCTURED
            return
        whole, later = (count or 0 for count in counts)
        self.events.lengths.append(whole)
        if later and time_ns is not None:
            self.events.tpot.append(time_ns / later)

    def _count(self) -> None:
        """Count the tokens of the answers that wait for it."""
        if self._count_tokens is None:
            return
        if self._prompts:
            self.events.inputs.extend(self._count_tokens(self._prompts))
            self._prompts.clear()
        counts = self._count_tokens([text.whole for text, _ in self._texts if text.whole])
        self.events.lengths.extend(counts)
        streamed = [(text.later, ns) for text, ns in self._texts if text.later and ns is not None]
        counts = self._count_tokens([text for text, _ in streamed])
        self.events.tpot.extend(
            ns / count for (_, ns), count in zip(streamed, counts, strict=True) if count
        )
        self._texts.clear()

    def result(self) -> RunEvents:
        self._count()
        self.events.lengths = array("q", sorted(self.events.lengths))
        self.events.tpot = array("d", sorted(self.events.tpot))
        self.events.inputs = array("q", sorted(self.events.inputs))
        self.events.duration_ns = sum(end - start for start, end in self._blocks)
        self.events.ttft = array("q", sorted(self.events.ttft))
        self.events.latency = array("q", sorted(self.events.latency))
        return self.events


def read_events(
    path: Path,
    count_tokens: TokenCounts | None = None,
    decode: Decoding | None = None,
    chat: ChatCounts | None = None,
) -> tuple[RunEvents | None, str]:
    """The figures in events.jsonl and "", or None and in one line why there are none.

    Without `count_tokens` there are none of tokens, without `decode` no texts of token ids, without
    `chat` no tokens of messages.
    """
    tracking = _Tracking(count_tokens, decode, chat)
    try:
        for event in events_in(path):
            tracking.take(event)
    except OSError as error:
        return None, f"{path.name} cannot be read: {error.strerror}"
    except ValueError as error:
        return None, str(error)
    return tracking.result(), ""
