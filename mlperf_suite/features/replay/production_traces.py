"""Traces of production: when requests came, and how long they and their answers were.

Formats: mooncake's JSONL (traces of github.com/kvcache-ai/Mooncake: `timestamp` in ms,
`input_length`, `output_length`, `hash_ids`), and spans of OpenTelemetry as OTLP JSON, in one object
or one a line (opentelemetry-proto, trace.proto; attributes of the semantic conventions for GenAI).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct

from mlperf_suite import strict_json
from mlperf_suite.errors import DatasetError
from mlperf_suite.untrusted_files import read_regular

T = TypeVar("T")
Kind = Literal["sessions", "mooncake", "OpenTelemetry"]
BLOCK = 512
"""Tokens of a prompt that one of mooncake's hash ids stands for."""
_MAX_FILE_BYTES = 500_000_000
_MAX_REQUESTS = 1_000_000
_MAX_TOKENS = 10_000_000
"""No model takes a longer prompt."""
_MAX_TIME_S = 366 * 86_400.0
_Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
"""Each by its name and by the one that it had in conventions before 1.27."""
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


def _typed(where: str, content: object, kind: type[T]) -> T:
    try:
        return strict_json.typed(content, kind, strict=False)
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from error


class _Row(Struct):
    """A line of mooncake's."""

    timestamp: Annotated[float, Meta(ge=0, le=1e300)]
    input_length: Annotated[int, Meta(ge=1, le=_MAX_TOKENS)]
    output_length: Annotated[int, Meta(ge=0, le=_MAX_TOKENS)]
    hash_ids: tuple[_Whole, ...] | None = None


def _rows(path: Path) -> Iterator[TraceRequest]:
    for number, content in _objects(path):
        where = f"{path}, line {number}"
        row = _typed(where, content, _Row)
        ids, wanted = row.hash_ids or (), math.ceil(row.input_length / BLOCK)
        if ids and len(ids) != wanted:
            raise DatasetError(
                f"{where}: {len(ids):,} `hash_ids` for {row.input_length:,} tokens, not "
                f"{wanted:,}: one stands for {BLOCK} tokens"
            )
        yield TraceRequest(row.timestamp / 1000, row.input_length, row.output_length, ids)


class _Attribute(Struct):
    key: str = ""
    value: Any = None


class _Span(Struct, rename="camel"):
    start_time_unix_nano: _Whole
    attributes: tuple[_Attribute, ...] | None = None


class _Scope(Struct):
    spans: tuple[_Span, ...] | None = None


class _Resource(Struct, rename="camel"):
    scope_spans: tuple[_Scope, ...] | None = None


class _Export(Struct, rename="camel"):
    resource_spans: tuple[_Resource, ...] | None = None


class _Prompt(Struct, rename="camel"):
    """The value of an attribute. Whole numbers are texts in OTLP's JSON."""

    int_value: Annotated[int, Meta(ge=1, le=_MAX_TOKENS)]


class _Answer(Struct, rename="camel"):
    int_value: Annotated[int, Meta(ge=0, le=_MAX_TOKENS)]


def _spans(path: Path) -> Iterator[TraceRequest]:
    for number, content in _objects(path):
        where = f"{path}, line {number}"
        for resource in _typed(where, content, _Export).resource_spans or ():
            for scope in resource.scope_spans or ():
                for span in scope.spans or ():
                    yield from _span_request(where, span)


def _span_request(where: str, span: _Span) -> Iterator[TraceRequest]:
    """The request of a span of a model; nothing for any other span."""
    values = {attribute.key: attribute.value for attribute in span.attributes or ()}
    operation = values.get("gen_ai.operation.name")
    if isinstance(operation, dict) and operation.get("stringValue") not in _GENERATING:
        return
    lengths = [next((values[n] for n in names if n in values), None) for names in (_INPUT, _OUTPUT)]
    if None not in lengths:
        prompt, answer = _typed(where, lengths, tuple[_Prompt, _Answer])
        yield TraceRequest(span.start_time_unix_nano / 1e9, prompt.int_value, answer.int_value)
