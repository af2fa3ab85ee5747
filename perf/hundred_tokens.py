"""The answer of a replica's engine, which its process finds by this module's name."""

from __future__ import annotations

from collections.abc import Sequence

_HUNDRED = list(range(100))


def a_hundred(prompt: Sequence[int]) -> Sequence[int]:
    return _HUNDRED
