"""The events in the official client's events.jsonl, and the texts of answers that it counts.

Sources: core/record.py, core/types.py (TextModelOutput) and metrics_table.py of
github.com/mlcommons/endpoints. The data of an answer's event is [name, output, reasoning, tool
calls], the last ones left out if empty; output and reasoning are lists of chunks if they were
streamed, and a text otherwise. Reasoning comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Raw, Struct, json

from mlperf_suite.untrusted_files import open_regular

_MAX_EVENTS_BYTES = 2**38
_MAX_LINE_LENGTH = 2**26
TokenCounts = Callable[[Sequence[str]], list[int]]
"""From texts to how many tokens the model's tokenizer makes of each."""
TEXTS_AT_ONCE = 4096
Message = Mapping[str, Any]
_KIND = "TextModelOutput"


class Event(Struct):
    """One event; `timestamp_ns` of the client's clock."""

    event_type: str
    timestamp_ns: Annotated[int, Meta(ge=0, le=2**62)]
    sample_uuid: str = ""
    finish_reason: str | None = None
    conversation_id: str | None = None
    data: Raw = Raw(b"null")


def events_in(path: Path) -> Iterator[Event]:
    """The events in the order of the file, up to the end of the session.

    Raises OSError for a file that cannot be read, ValueError with one line for another line than an
    event.
    """
    decoder, number = json.Decoder(Event), 0
    with open_regular(path, _MAX_EVENTS_BYTES) as file:
        while line := file.readline(_MAX_LINE_LENGTH):
            number += 1
            try:
                event = decoder.decode(line)
            # ValueError: bytes that are not UTF-8. RecursionError: members nested without end.
            except (DecodeError, ValueError, RecursionError) as error:
                raise ValueError(f"{path.name}: line {number:,} is not an event") from error
            if event.event_type == "session.ended":
                return
            yield event


@dataclass(frozen=True, slots=True)
class AnswerText:
    """`whole`: the answer; `later`: without its first chunk, which a TPOT counts.

    `parts`: of an answer with reasoning or tool calls, its output, reasoning and calls, which
    `messages_of` reads; None for any other.
    """

    whole: str = ""
    later: str = ""
    parts: tuple[Any, Any, Any] | None = None


def answer_text(data: Raw) -> AnswerText:
    """The texts of an answer, the data of its event; empty for anything else."""
    try:
        parts: Any = json.decode(data)
    except (DecodeError, ValueError, RecursionError):
        return AnswerText()
    if not isinstance(parts, list) or parts[:1] != [_KIND]:
        return AnswerText()
    output, reasoning, calls = (*parts[1:4], None, None, None)[:3]
    whole = "".join((*_chunks(reasoning), *_chunks(output)))
    structured = (output, reasoning, calls) if reasoning or calls else None
    return AnswerText(whole, _after_first_chunk(output, reasoning), structured)


def messages_of(parts: tuple[Any, Any, Any]) -> tuple[Message, Message]:
    """An answer with reasoning or tool calls, and what follows its first chunk, as two messages of
    the assistant: the client counts them in the model's chat template.

    Raises TypeError, AttributeError for calls that are none.
    """
    output, reasoning, calls = parts
    content, thoughts = _chunks(output), _chunks(reasoning)
    later = thoughts[1:] if isinstance(reasoning, list) else []
    # Calls come last: the first chunk is one of theirs only where there is nothing else.
    later_calls = calls if content or thoughts or not _is_streamed(calls) else calls[1:]
    rest = _after_first_chunk(output, reasoning).removeprefix("".join(later))
    return (
        _message("".join(content), "".join(thoughts), calls),
        _message(rest, "".join(later), later_calls),
    )


def _message(content: str, reasoning: str, calls: Any) -> Message:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = _joined(calls) if _is_streamed(calls) else calls
    return message


def _is_streamed(calls: Any) -> bool:
    """Whether tool calls are chunks, each a list of parts of calls."""
    return isinstance(calls, list) and bool(calls) and isinstance(calls[0], list)


def _joined(chunks: Sequence[Sequence[Any]]) -> list[Any]:
    """Tool calls from their parts, in the order of their indices (core/types.py)."""
    joined: dict[int, dict[str, Any]] = {}
    for part in (part for chunk in chunks for part in chunk):
        none_yet = {"type": "function", "function": {"arguments": ""}}
        call = joined.setdefault(part.get("index", 0), none_yet)
        call |= {name: part[name] for name in ("id", "type") if part.get(name)}
        function = part.get("function") or {}
        call["function"] |= {"name": function["name"]} if function.get("name") else {}
        call["function"]["arguments"] += function.get("arguments") or ""
    return [joined[index] for index in sorted(joined)]


def _chunks(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [chunk for chunk in part if isinstance(chunk, str)] if isinstance(part, list) else []


def _after_first_chunk(output: Any, reasoning: Any) -> str:
    """The text that the time of the first token does not cover."""
    thoughts = list(reasoning) if isinstance(reasoning, list) else []
    if isinstance(output, list):
        chunks = output if reasoning else output[1:]
    else:
        chunks = [output] if isinstance(output, str) and thoughts else []
    return "".join(part for part in (*thoughts[1:], *chunks) if isinstance(part, str))
