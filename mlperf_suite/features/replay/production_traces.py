"""Traces of production: when requests came, and how long they and their answers were.

Formats: mooncake's JSONL (traces of github.com/kvcache-ai/Mooncake: `timestamp` in ms,
`input_length`, `output_length`, `hash_ids`), and spans of OpenTelemetry as OTLP JSON, in one object
or one a line (opentelemetry-proto, trace.proto; attributes of the semantic conventions for GenAI).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from mlperf_suite import strict_json
from mlperf_suite.errors import DatasetError
from mlperf_suite.untrusted_files import read_regular

Kind = Literal["sessions", "mooncake", "OpenTelemetry"]
BLOCK = 512
"""Tokens of a prompt that one of mooncake's hash ids stands for."""
_MAX_FILE_BYTES = 500_000_000
_MAX_REQUESTS = 1_000_000
_MAX_TOKENS = 10_000_000
"""No model takes a longer prompt."""
_MAX_TIME_S = 366 * 86_400.0
_MAX_BLOCK_ID = 2**63
_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
"""Each by its name and by the one that it had in conventions before 1.27."""
_OPERATION = "gen_ai.operation.name"
_GENERATING = ("chat", "text_completion", "generate_content")
"""Operations of a model. Spans of agents repeat the tokens of the calls within them."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """`at_s`: when it came, in s since the first one. `blocks`: one id for each `BLOCK` tokens of
    the prompt, the same where prompts begin alike; empty if that was not recorded."""

    at_s: float
    prompt: int
    answer: int
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """`notes`: changes and omissions of the file, a line each."""

    kind: Kind
    requests: tuple[TraceRequest, ...]
    notes: tuple[str, ...] = ()


def kind_of(path: Path) -> Kind:
    """What a file holds, by the members of its first object. Raises DatasetError."""
    first = next(_objects(path), (0, {}))[1]
    if "conversation_id" in first:
        return "sessions"
    if "input_length" in first:
        return "mooncake"
    if "resourceSpans" in first:
        return "OpenTelemetry"
    raise DatasetError(
        f"{path}: neither recorded sessions (conversation_id), mooncake's trace (input_length) nor "
        "OpenTelemetry's spans (resourceSpans)"
    )


def read_trace(path: Path, limit: int | None = None) -> Trace:
    """The requests of a trace, or its first `limit`, in the order of their times. Raises
    DatasetError, which names the line."""
    kind = kind_of(path)
    rows = _spans(path) if kind == "OpenTelemetry" else _rows(path)
    requests = _taken(path, rows, limit)
    if not requests:
        raise DatasetError(f"{path}: has no request")
    notes = []
    if any(later.at_s < former.at_s for former, later in pairwise(requests)):
        notes.append("the requests were not in the order of their times: sorted")
    requests.sort(key=lambda request: request.at_s)
    if short := sum(not request.answer for request in requests):
        notes.append(f"{short:,} answers of no tokens: one token is requested")
    began = requests[0].at_s
    if requests[-1].at_s - began > _MAX_TIME_S:
        raise DatasetError(f"{path}: its times are more than a year apart")
    moved = [
        TraceRequest(round(r.at_s - began, 9), r.prompt, max(1, r.answer), r.blocks)
        for r in requests
    ]
    return Trace(kind, tuple(moved), tuple(notes))


def _taken(path: Path, rows: Iterator[TraceRequest], limit: int | None) -> list[TraceRequest]:
    requests: list[TraceRequest] = []
    for request in rows:
        if len(requests) == limit:
            break
        if len(requests) == _MAX_REQUESTS:
            raise DatasetError(
                f"{path}: more than {_MAX_REQUESTS:,} requests: --limit N takes the first N"
            )
        requests.append(request)
    return requests


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The file's objects with the numbers of their lines: one on each line, or a single one."""
    try:
        text = read_regular(path, _MAX_FILE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: cannot be read: {error}") from error
    first = text.lstrip().partition("\n")[0].rstrip()
    if first and not first.endswith("}"):
        # A single object on several lines.
        yield 1, _object(f"{path}", text)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _object(f"{path}, line {number}", line)


def _object(where: str, text: str) -> dict[str, Any]:
    try:
        content = strict_json.loads(text)
    except ValueError as error:
        raise DatasetError(f"{where}: no JSON: {error}") from error
    if not isinstance(content, dict):
        raise DatasetError(f"{where}: not an object")
    return content


def _number(where: str, name: str, value: object, most: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN is in no range.
    if not is_number or not 0 <= value <= most:  # type: ignore[operator]
        words = str(value)[:40] if is_number else type(value).__name__
        raise DatasetError(f"{where}: `{name}` is {words}, not a number from 0 to {most:,.0f}")
    return float(value)  # type: ignore[arg-type]


def _count(where: str, name: str, value: object, least: int = 0) -> int:
    number = _number(where, name, value, _MAX_TOKENS)
    if number < least or number != int(number):
        raise DatasetError(f"{where}: `{name}` is {number:g}, not a count of tokens")
    return int(number)


def _rows(path: Path) -> Iterator[TraceRequest]:
    for number, row in _objects(path):
        where = f"{path}, line {number}"
        at_ms = _number(where, "timestamp", row.get("timestamp"), math.inf)
        if at_ms == math.inf:
            raise DatasetError(f"{where}: `timestamp` is endless")
        prompt = _count(where, "input_length", row.get("input_length"), 1)
        answer = _count(where, "output_length", row.get("output_length"))
        blocks = _blocks(where, row.get("hash_ids"), prompt)
        yield TraceRequest(at_ms / 1000, prompt, answer, blocks)


def _blocks(where: str, ids: object, prompt: int) -> tuple[int, ...]:
    if ids is None or ids == []:
        return ()
    if not isinstance(ids, list) or any(
        type(i) is not int or not 0 <= i < _MAX_BLOCK_ID for i in ids
    ):
        raise DatasetError(f"{where}: `hash_ids` are not whole numbers from 0 on")
    if len(ids) != (wanted := math.ceil(prompt / BLOCK)):
        raise DatasetError(
            f"{where}: {len(ids):,} `hash_ids` for {prompt:,} tokens, not {wanted:,}: one stands "
            f"for {BLOCK} tokens"
        )
    return tuple(ids)


def _spans(path: Path) -> Iterator[TraceRequest]:
    for number, content in _objects(path):
        where = f"{path}, line {number}"
        for resource in _list(where, content, "resourceSpans"):
            for scope in _list(where, resource, "scopeSpans"):
                for span in _list(where, scope, "spans"):
                    yield from _span_request(where, span)


def _list(where: str, holder: dict[str, Any], name: str) -> Sequence[dict[str, Any]]:
    members = holder.get(name) or []
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise DatasetError(f"{where}: `{name}` is not a list of objects")
    return members


def _span_request(where: str, span: dict[str, Any]) -> Iterator[TraceRequest]:
    """The request of a span of a model; nothing for any other span."""
    values = {
        attribute.get("key"): attribute.get("value")
        for attribute in _list(where, span, "attributes")
        if isinstance(attribute.get("key"), str)
    }
    operation = values.get(_OPERATION)
    if isinstance(operation, dict) and operation.get("stringValue") not in _GENERATING:
        return
    prompt = next((values[name] for name in _INPUT if name in values), None)
    answer = next((values[name] for name in _OUTPUT if name in values), None)
    if prompt is None or answer is None:
        return
    at_ns = _whole(where, "startTimeUnixNano", span.get("startTimeUnixNano"))
    lengths = [
        _count(where, name, _whole(where, name, value.get("intValue")), least)
        for name, value, least in ((_INPUT[0], prompt, 1), (_OUTPUT[0], answer, 0))
        if isinstance(value, dict)
    ]
    if len(lengths) != len((prompt, answer)):
        raise DatasetError(f"{where}: a span's tokens are not values of OTLP")
    yield TraceRequest(at_ns / 1e9, lengths[0], lengths[1])


def _whole(where: str, name: str, value: object) -> int:
    """A whole number, which OTLP's JSON writes as a text."""
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) <= len(str(_MAX_BLOCK_ID))
    ):
        return int(value)
    if type(value) is int and 0 <= value < 2 * _MAX_BLOCK_ID:
        return value
    raise DatasetError(f"{where}: `{name}` is not a whole number from 0 on")
