"""The texts of answers in events.jsonl that the official HTTP client counts in tokens.

Sources: core/types.py (TextModelOutput) and metrics_table.py of github.com/mlcommons/endpoints. The
client writes [name, output, reasoning, tool calls], the last ones left out if empty; output and
reasoning are lists of chunks if they were streamed, and a text otherwise. Reasoning comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import DecodeError, Raw, json

TokenCounts = Callable[[Sequence[str]], list[int]]
"""From texts to how many tokens the model's tokenizer makes of each."""
TEXTS_AT_ONCE = 4096
_KIND = "TextModelOutput"


@dataclass(frozen=True, slots=True)
class AnswerText:
    """`whole`: the answer; `later`: without its first chunk, which a TPOT counts.

    `is_structured`: with reasoning or tool calls, which are counted in the model's chat template.
    """

    whole: str = ""
    later: str = ""
    is_structured: bool = False


def answer_text(data: Raw) -> AnswerText:
    """The texts of an answer, the data of its event; empty for anything else."""
    try:
        parts: Any = json.decode(data)
    except (DecodeError, ValueError, RecursionError):
        return AnswerText()
    if not isinstance(parts, list) or parts[:1] != [_KIND]:
        return AnswerText()
    output, reasoning, calls = (*parts[1:4], None, None, None)[:3]
    thoughts = _chunks(reasoning)
    whole = "".join((*thoughts, *_chunks(output)))
    return AnswerText(whole, _after_first_chunk(output, reasoning), bool(reasoning or calls))


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
