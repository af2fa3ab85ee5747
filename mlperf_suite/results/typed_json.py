"""Reads dataclasses from untrusted JSON, and writes them.

Reading never raises because of the JSON: a value that is missing or has another type is ignored,
and the field keeps its default. A field without a default is required: an object that lacks it is
ignored as a whole.
"""

from __future__ import annotations

import types
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_ABSENT: Any = object()
_MAX_NUMBER = 1e30
"""The largest number that is read: no figure is near it, and sums and squares of it are finite."""


def read(kind: type[T], content: object) -> T | None:
    """A dataclass from a JSON value; None if it is not an object or lacks required fields.

    Supported field types: str, bool, int, float (up to 1e30), Any, Literal, a dataclass, a tuple of
    any length or a dict from strings of these, or one of them or None.
    """
    value = _value(kind, content)
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
    """The JSON of a dataclass's fields, by name. One that is unknown (None) or empty by default is
    left out then: reading gives it the default again."""
    members = {part.name: (getattr(value, part.name), part) for part in fields(value)}
    return {name: to_json(item) for name, (item, part) in members.items() if not _blank(item, part)}


def _blank(value: object, part: Field[Any]) -> bool:
    """Whether it is the empty value that its field has by default."""
    made = part.default_factory is not MISSING and part.default_factory()
    default = made if part.default is MISSING else part.default
    return value in (None, "", (), {}) and value == default


def _value(hint: Any, value: object) -> Any:
    """A value of this type; _ABSENT if it is of another."""
    if hint is Any:
        return value
    if isinstance(hint, type):
        return _object(hint, value) if is_dataclass(hint) else _simple(hint, value)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        item = _value(inner, value)
        return None if item is _ABSENT else item
    if origin is tuple and isinstance(value, list):
        items = [_value(arguments[0], item) for item in value]
        return tuple(item for item in items if item is not _ABSENT)
    if origin is dict and isinstance(value, dict):
        by_name = {str(name): _value(arguments[1], item) for name, item in value.items()}
        return {name: item for name, item in by_name.items() if item is not _ABSENT}
    is_literal = origin is Literal and isinstance(value, str) and value in arguments
    return value if is_literal else _ABSENT


def _object(kind: type, value: object) -> Any:
    if not isinstance(value, dict):
        return _ABSENT
    values = {}
    for name, (hint, is_required) in _fields(kind).items():
        item = _value(hint, value[name]) if name in value else _ABSENT
        if item is not _ABSENT:
            values[name] = item
        elif is_required:
            return _ABSENT
    return kind(**values)


@cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """A dataclass's fields: of each its type, and whether it is required."""
    hints, parts = get_type_hints(kind), fields(kind)
    return {
        part.name: (hints[part.name], part.default is part.default_factory is MISSING)
        for part in parts
    }


def _simple(kind: type, value: object) -> Any:
    if kind not in (int, float):
        return value if isinstance(value, kind) else _ABSENT
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not abs(value) <= _MAX_NUMBER
    ):
        return _ABSENT
    return kind(value) if kind is float or value == int(value) else _ABSENT
