"""The tables of docs/evidence that a program here writes: the prose around them stays as it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

PAGES = Path(__file__).resolve().parents[1] / "docs" / "evidence"


def table_after(page: Path, header: str) -> list[str]:
    """The rows of the table that begins with a line, without that and the next."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first, end = _span(lines, header)
    return lines[first:end]


def rewrite_table(page: Path, header: str, rows: Iterable[str]) -> None:
    """Put other rows into the table that begins with a line."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first, end = _span(lines, header)
    lines[first:end] = rows
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _span(lines: list[str], header: str) -> tuple[int, int]:
    first = lines.index(header) + 2
    end = next((n for n in range(first, len(lines)) if not lines[n].startswith("|")), len(lines))
    return first, end
