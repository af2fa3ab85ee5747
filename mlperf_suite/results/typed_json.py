"""Reads dataclasses from untrusted JSON, and writes them.

Reading never raises because of the JSON: a value that is missing or has another type is ignored,
and the field keeps its default. A field without a default is required: an object that lacks it is
ignored as a whole.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_ABSENT: Any = object()
_Reader = Callable[[object], Any]


def read(kind: type[T], content: object) -> T | None:
    """A dataclass from a JSON value; None if it is not an object, is empty, or lacks required
    fields.

    Supported field types: str, bool, int, float (finite), Any, Literal, a dataclass, a tuple of any
    length or a dict from strings of these, or one of them or None.
    """
    target: Any = kind
    value = _reader(target)(content)
    return None if value is _ABSENT else value


def to_json(value: object) -> Any:
    """The JSON of a dataclass: from its `as_json` if it has one, else from its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        as_json = getattr(value, "as_json", None)
        return as_json() if as_json else written_fields(value)
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    return value


def written_fields(value: Any) -> dict[str, Any]:
    """The JSON of a dataclass's fields, by name."""
    return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}


@cache
def _reader(hint: Any) -> _Reader:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _optional(_reader(inner))
    if origin is tuple:
        return _tuple(_reader(arguments[0]))
    if origin is dict:
        return _dict(_reader(arguments[1]))
    if origin is Literal:
        return lambda value: value if isinstance(value, str) and value in arguments else _ABSENT
    if is_dataclass(hint):
        return _dataclass(hint)
    return _SIMPLE[hint]


def _optional(inner: _Reader) -> _Reader:
    def read_optional(value: object) -> Any:
        item = inner(value)
        return None if item is _ABSENT else item

    return read_optional


def _tuple(inner: _Reader) -> _Reader:
    def read_tuple(value: object) -> Any:
        if not isinstance(value, list):
            return _ABSENT
        return tuple(item for item in map(inner, value) if item is not _ABSENT)

    return read_tuple


def _dict(inner: _Reader) -> _Reader:
    def read_dict(value: object) -> Any:
        if not isinstance(value, dict):
            return _ABSENT
        items = {str(name): inner(item) for name, item in value.items()}
        return {name: item for name, item in items.items() if item is not _ABSENT}

    return read_dict


def _dataclass(kind: Any) -> _Reader:
    hints = get_type_hints(kind)
    parts = [
        (field.name, _reader(hints[field.name]), _has_default(field)) for field in fields(kind)
    ]

    def read_dataclass(value: object) -> Any:
        if not isinstance(value, dict) or not value:
            return _ABSENT
        values = {}
        for name, inner, has_default in parts:
            item = inner(value[name]) if name in value else _ABSENT
            if item is not _ABSENT:
                values[name] = item
            elif not has_default:
                return _ABSENT
        return kind(**values)

    return read_dataclass


def _has_default(field: Any) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _float(value: object) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _ABSENT
    try:
        return float(value) if math.isfinite(value) else _ABSENT
    except OverflowError:
        return _ABSENT


def _int(value: object) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else _ABSENT


_SIMPLE: dict[Any, _Reader] = {
    str: lambda value: value if isinstance(value, str) else _ABSENT,
    bool: lambda value: value if isinstance(value, bool) else _ABSENT,
    int: _int,
    float: _float,
    Any: lambda value: value,
}
