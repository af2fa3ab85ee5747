"""JSON in which no object has a member twice: readers disagree on which of the two is meant."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mlperf_suite.untrusted_files import MAX_TEXT_BYTES, printable, read_regular

T = TypeVar("T")

_MAX_LEVELS = 100
"""How deep a text may be nested: a deeper text may be readable and not writable."""


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON object read from a file; `problem` says why there is none."""

    content: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


class RepeatedMemberError(ValueError):
    """An object has a member twice; the message names it."""


def load(path: Path, most: int = MAX_TEXT_BYTES) -> Any:
    """Parse an untrusted file. Raises OSError (see `open_regular`), and as `loads` does."""
    return loads(read_regular(path, most).decode("utf-8"))


def loads(text: str | bytes) -> Any:
    """Parse JSON. Raises RepeatedMemberError, or ValueError if it is not JSON, or nested deeply."""
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        content = _decoded(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    # Most texts, each line of a log among them, have too few brackets to be nested deeply.
    if text.count("[") + text.count("{") <= _MAX_LEVELS:
        return content
    level: list[Any] = [[content]]
    for _ in range(_MAX_LEVELS):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [item for part in parts for item in part if isinstance(item, dict | list)]
        if not level:
            return content
    raise ValueError("nested too deeply")


def typed(content: object, kind: type[T], *, strict: bool = True) -> T:
    """Parsed content as a type. Without `strict`, a text or a whole number with a point counts as
    the number that it is. Raises ValueError, in one line: what is wrong, and at which member."""
    try:
        return msgspec.convert(content, kind, strict=strict)
    # RecursionError: YAML may hold itself. UnicodeEncodeError: half a surrogate pair.
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:
        raise ValueError(printable(str(error))) from error


def _decoded(text: str) -> Any:
    """Parse JSON. A short text by msgspec, several times as fast, which takes the last of equal
    members: where its result has fewer strings than the text, or for what only `json` takes, by
    `json`."""
    # Without a backslash every quote begins or ends a string.
    if len(text) < _SHORT and "\\" not in text:
        with contextlib.suppress(ValueError, msgspec.MsgspecError):
            content = msgspec.json.decode(text)
            if 2 * _strings(content) == text.count('"'):
                return content
    return _DECODER.decode(text)


_SHORT = 2**12
"""Characters of an entry of a log, but for a list of samples or an answer."""


def _strings(content: Any) -> int:
    if isinstance(content, str):
        return 1
    if isinstance(content, dict):
        return len(content) + sum(map(_strings, content.values()))
    return sum(map(_strings, content)) if isinstance(content, list) else 0


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise RepeatedMemberError(f"{repeated[:80]!r} twice in one object")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
