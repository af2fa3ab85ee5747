"""`-p meta_tests.reports.undrawn`: plots are empty: drawing takes most of a report's time."""

from collections.abc import Callable
from typing import Any

from mlperf_suite.reports import sections

PNG = b"\x89PNG"
"""How such a file begins."""


def draw_nothing(put: Callable[[Any, str, Any], None]) -> None:
    """`put` is setattr, or what takes back what it set."""
    put(sections.Plot, "figure", lambda *_: None)
    put(sections.Plot, "svg", lambda _: "<svg></svg>")
    put(sections, "_drawn", lambda *_, **__: PNG)


def pytest_configure() -> None:
    draw_nothing(setattr)
