"""Rewrites a table of a page in docs/evidence/ in its place; the prose around it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlperf_suite import SUITE_FOLDER

PAGES = SUITE_FOLDER / "docs" / "evidence"


def with_table(text: str, header: str, rows: Sequence[Sequence[str]], after: str = "") -> str:
    """A page with the rows of its table of that header replaced. Raises ValueError if it has none.

    `after`: words of a line before the table, where the page has several tables of that header.
    """
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if after in line)
    start = end = lines.index(header, first) + 2
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    lines[start:end] = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def write_table(page: Path, header: str, rows: Sequence[Sequence[str]], after: str = "") -> None:
    """As `with_table`, in the file."""
    page.write_text(with_table(page.read_text(), header, rows, after))
