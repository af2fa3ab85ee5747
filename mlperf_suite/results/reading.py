"""Taking what is there out of a summary that somebody else, or an older suite, may have written."""

from __future__ import annotations

import math
from typing import Any


def part(content: object, *names: str) -> dict[str, Any]:
    """The object under these names, or an empty one."""
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def items(content: object, name: str) -> list[Any]:
    """The list of that name, or an empty one."""
    found = content.get(name) if isinstance(content, dict) else None
    return found if isinstance(found, list) else []


def number(content: object, *names: str) -> float | None:
    """The finite number under these names, or None."""
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    if isinstance(content, bool) or not isinstance(content, int | float):
        return None
    try:
        return float(content) if math.isfinite(content) else None
    except OverflowError:
        return None
