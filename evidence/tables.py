"""The tables of docs/evidence that a program here writes: the prose around them stays as it is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGES_VARIABLE = "EVIDENCE_PAGES"
COMMITTED = Path(__file__).resolve().parents[1] / "docs" / "evidence"
PAGES = Path(os.environ.get(PAGES_VARIABLE) or COMMITTED)
"""Where programs write: `evidence.pages` has them write into a copy."""


def table_after(page: Path, header: str) -> list[str]:
    """The rows of the table that begins with a line, without that and the next."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first, end = _span(lines, header)
    return lines[first:end]


def rewrite_table(page: Path, header: str, rows: Iterable[str], after: str = "") -> None:
    """Put other rows into the table that begins with a line.

    `after`: words of a line before the table, where the page has several tables of that header.
    Raises ValueError if it has none.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    first, end = _span(lines, header, after)
    lines[first:end] = rows
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_cells(page: Path, header: str, rows: Iterable[Sequence[str]], after: str = "") -> None:
    """As `rewrite_table`, with the cells of each row."""
    rewrite_table(page, header, (f"| {' | '.join(row)} |" for row in rows), after)


def _span(lines: list[str], header: str, after: str = "") -> tuple[int, int]:
    before = next(number for number, line in enumerate(lines) if after in line)
    first = lines.index(header, before) + 2
    end = next((n for n in range(first, len(lines)) if not lines[n].startswith("|")), len(lines))
    return first, end
