"""Recorded sessions of agents: conversations whose turns are asked again with the recorded history.

The format is that of `agentic_coding_2.5h.jsonl` (mlcommons/endpoints,
examples/11_Edge_Agentic_Example): one message a line, with `conversation_id` and `turn`. As samples
of a data set, each turn that the model answers is one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite import strict_json
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.errors import DatasetError
from mlperf_suite.untrusted_files import read_regular

Message = dict[str, Any]
_ASSISTANT_FIELDS = ("role", "content", "name", "tool_calls", "reasoning_content")
_MAX_FILE_BYTES = 500_000_000
EMBEDDED_SESSIONS = Path(__file__).parent / "embedded" / "agent_sessions.jsonl"
"""Short conversations that were written for this project."""


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """What the user or the tools say, and what the recorded model answered. `number` as in the
    file; `delay_s`: how long the tools took before it."""

    number: int
    messages: tuple[Message, ...]
    answer: Message
    delay_s: float


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """One conversation. `opening`: its system message, if it has one."""

    name: str
    opening: tuple[Message, ...]
    tools: tuple[Message, ...]
    turns: tuple[RecordedTurn, ...]

    def prompts(self) -> Iterator[tuple[RecordedTurn, list[Message]]]:
        """Each turn, and the messages to send for it: the history has the recorded answers, not
        the measured model's."""
        history = list(self.opening)
        for turn in self.turns:
            history += turn.messages
            yield turn, list(history)
            history.append(turn.answer)


def read_sessions(path: Path) -> list[RecordedSession]:
    """The conversations of a file, in the order of their first lines. Raises DatasetError."""
    try:
        lines = read_regular(path, _MAX_FILE_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from error
    rows: dict[str, list[Message]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = _row(f"{path}, line {number}", line)
            rows.setdefault(row["conversation_id"], []).append(row)
    if not rows:
        raise DatasetError(f"{path}: has no conversation")
    return [_session(f"{path}, {name}", name, group) for name, group in rows.items()]


def _row(where: str, line: str) -> Message:
    try:
        row = strict_json.loads(line)
    except ValueError as error:
        raise DatasetError(f"{where}: no JSON: {error}") from error
    if not isinstance(row, dict):
        raise DatasetError(f"{where}: not an object")
    name, turn = row.get("conversation_id"), row.get("turn")
    if not isinstance(name, str) or type(turn) is not int or turn < 1:
        raise DatasetError(f"{where}: needs a text `conversation_id` and a `turn` from 1 on")
    return row


def _session(where: str, name: str, rows: list[Message]) -> RecordedSession:
    rows = sorted(rows, key=lambda row: int(row["turn"]))
    if [row["turn"] for row in rows] != list(range(1, len(rows) + 1)):
        raise DatasetError(f"{where}: its turns are not 1, 2, 3 and so on")
    asked, answers = rows[::2], rows[1::2]
    if len(asked) != len(answers) or any(row.get("role") != "assistant" for row in answers):
        raise DatasetError(f"{where}: the recorded model does not answer every second turn")
    first = rows[0]
    system = first.get("system")
    opening = ({"role": "system", "content": system},) if isinstance(system, str) and system else ()
    turns = tuple(
        RecordedTurn(row["turn"], _messages(where, row), _assistant(answer), _delay_s(row))
        for row, answer in zip(asked, answers, strict=True)
    )
    return RecordedSession(name, opening, _objects(where, first, "tools"), turns)


def _messages(where: str, row: Message) -> tuple[Message, ...]:
    """What the user says, or one message for the result of each tool call."""
    where = f"{where}, turn {row['turn']}"
    if row.get("role") == "user" and isinstance(row.get("content"), str | list):
        return ({"role": "user", "content": row["content"]},)
    results = _objects(where, row, "tool_results")
    if row.get("role") != "tool" or not results:
        raise DatasetError(f"{where}: is neither a user's `content` nor `tool_results`")
    if any("tool_call_id" not in result or "content" not in result for result in results):
        raise DatasetError(f"{where}: a result lacks `tool_call_id` or `content`")
    return tuple(
        {"role": "tool", "tool_call_id": result["tool_call_id"], "content": result["content"]}
        for result in results
    )


def _assistant(row: Message) -> Message:
    message = {name: row[name] for name in _ASSISTANT_FIELDS if row.get(name) is not None}
    return {"content": None} | message if "tool_calls" in message else message


def _objects(where: str, row: Message, name: str) -> tuple[Message, ...]:
    values = row.get(name) or []
    if not isinstance(values, list) or any(not isinstance(value, Mapping) for value in values):
        raise DatasetError(f"{where}: `{name}` is not a list of objects")
    return tuple(values)


def _delay_s(row: Message) -> float:
    """How long the tools took; nothing where it is no usable number."""
    value = row.get("delay_seconds")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return float(value) if math.isfinite(value) and value > 0 else 0.0


def load_sessions(source: str, token: str | None = None) -> Samples:
    """Read a file of recorded conversations, or (`embedded`) the package's own, as samples.

    `token` is unused because the files are local. Raises DatasetError.
    """
    path = EMBEDDED_SESSIONS if source == "embedded" else Path(source).expanduser()
    name = "embedded" if source == "embedded" else path.name
    return Samples(name, tuple(_samples_of(read_sessions(path))))


def _samples_of(sessions: Iterable[RecordedSession]) -> Iterator[Sample]:
    """The input of a turn is its new messages, its reference what the recorded model answered."""
    for session in sessions:
        for place, turn in enumerate(session.turns):
            content: dict[str, Any] = {"messages": turn.messages, "delay_s": turn.delay_s}
            if place == 0:
                content |= {"opening": session.opening, "tools": session.tools}
            yield Sample(
                json.dumps(content),
                json.dumps(turn.answer),
                kind=session.name,
                id=f"{session.name}/{turn.number}",
            )


def sessions_of(samples: Iterable[Sample]) -> list[RecordedSession]:
    """The conversations that samples are the turns of; the last may lack its end."""
    first: dict[str, dict[str, Any]] = {}
    turns: dict[str, list[RecordedTurn]] = {}
    for sample in samples:
        content = json.loads(sample.input)
        first.setdefault(sample.kind, content)
        number = int(sample.id.rpartition("/")[2])
        messages, answer = tuple(content["messages"]), json.loads(sample.reference)
        turn = RecordedTurn(number, messages, answer, content["delay_s"])
        turns.setdefault(sample.kind, []).append(turn)
    return [
        RecordedSession(name, tuple(head["opening"]), tuple(head["tools"]), tuple(turns[name]))
        for name, head in first.items()
    ]
