"""JSON in which no object has a member twice: readers disagree on which of the two is meant."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


class RepeatedMemberError(ValueError):
    """An object has a member twice; the message names it."""


def loads(text: str | bytes) -> Any:
    """Parse JSON. Raises RepeatedMemberError, or ValueError or RecursionError if it is not JSON."""
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise RepeatedMemberError(f"{repeated[:80]!r} twice in one object")
    return members
