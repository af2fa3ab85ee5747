"""Queries of drivers that may fail or never answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

PATIENCE_S = 20.0
"""A driver in trouble may never answer; the machine then counts as one without its devices."""
_Value = TypeVar("_Value")


def in_time(query: Callable[[], _Value]) -> _Value | None:
    """The result of a query; None if it fails or does not return in time."""
    results: list[_Value] = []

    def run() -> None:
        # After any error in the library or its driver, no device is reported.
        with suppress(Exception):
            results.append(query())

    thread = threading.Thread(target=run, name="accelerators", daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return results[0] if results else None
