"""Renders a report's sections as Markdown, for report.md and wherever text is read as it is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Code,
    Paragraph,
    Picture,
    Plots,
    Points,
    Section,
    Table,
    Tiles,
    figure_table,
    file_link,
)
from mlperf_suite.untrusted_files import printable

_IN_A_WORD = re.compile(r"(?<=[A-Za-z0-9])\\_(?=[A-Za-z0-9])")
_MIN_CELL = 8
"""The width in characters down to which cells are cut for a terminal."""


def markdown_text(sections: Sequence[Section], *, terminal: int | None = None) -> str:
    """The sections as Markdown, without what only a page shows.

    `terminal`: the columns of one in which it is read as it is. Titles are then plain lines without
    the report's own, tables are aligned, and what is too long is folded or cut.
    """
    parts: list[str] = []
    for section in sections:
        if section.blocks and all(isinstance(block, Plots) for block in section.blocks):
            continue
        status = f": {escaped(section.status)}" if section.status else ""
        if terminal is None:
            parts.append(f"{'#' * section.level} {escaped(section.title)}{status}")
        elif section.level > 1:
            parts.append(f"{escaped(section.title)}:")
        parts += filter(None, (_block(block, terminal) for block in section.blocks))
    return "\n\n".join(parts) + "\n"


def escaped(value: object) -> str:
    """A value for a Markdown table or sentence, with all markup in it escaped."""
    text = printable(" ".join(str(value).split()))
    for mark in "\\`*_{}[]<>|#":
        text = text.replace(mark, "\\" + mark)
    return text


def _block(block: Block, terminal: int | None) -> str:  # noqa: PLR0911 - one for each kind
    match block:
        case Paragraph():
            lead = f"**{escaped(block.lead)}**" if block.lead else ""
            words = " ".join(filter(None, (lead, escaped(block.text), escaped(block.status))))
            return _folded(words, terminal)
        case Points():
            lines = (_folded(f"- {_words(line)}", terminal, "  ") for line in block.lines)
            return _title(block.title) + "\n".join(lines)
        case Table():
            note = f"\n\n{_folded(escaped(block.note), terminal)}" if block.note else ""
            table = _table(block) if terminal is None else _aligned(block, terminal)
            return _title(block.title) + table + note
        case Tiles():
            return _table(figure_table(block.rows))
        case Picture():
            return f"![{escaped(block.alt)}]({file_link(block.name)})"
        case Code():
            # Indented, no text of a line can end the block.
            return "\n".join(f"    {printable(line)}" for line in block.lines)
        case _:
            return ""


def _title(title: str) -> str:
    return f"{escaped(title)}:\n\n" if title else ""


def _words(cell: Cell) -> str:
    if isinstance(cell, str):
        return escaped(cell)
    text = f"[{escaped(cell.text)}]({cell.link})" if cell.link else escaped(cell.text)
    return " ".join([text, *map(escaped, filter(None, cell.asides))])


def _table(table: Table) -> str:
    header = _row([column.name for column in table.columns])
    dashes = ("---:" if column.kind == "number" else "---" for column in table.columns)
    return "\n".join([header, f"|{'|'.join(dashes)}|", *map(_row, table.rows)])


def _row(cells: Sequence[Cell]) -> str:
    return "| " + " | ".join(map(_words, cells)) + " |"


# For a terminal


def _folded(text: str, terminal: int | None, indent: str = "") -> str:
    if terminal is None:
        return text
    fold = textwrap.TextWrapper(terminal, subsequent_indent=indent, break_long_words=False)
    fold.break_on_hyphens = False
    return fold.fill(_IN_A_WORD.sub("_", text))


def _shown(text: str) -> str:
    """Escaped but for underscores in a name, which Markdown takes as they are."""
    return _IN_A_WORD.sub("_", escaped(text))


def _aligned(table: Table, terminal: int) -> str:
    """A table whose columns stand below each other, the widest cut until all fit."""
    texts = [[column.name for column in table.columns]]
    texts += [[c if isinstance(c, str) else c.text for c in row] for row in table.rows]
    widths = [max(len(_shown(row[n])) for row in texts) for n in range(len(table.columns))]
    while sum(widths) + 3 * len(widths) + 1 > terminal and max(widths) > _MIN_CELL:
        widths[widths.index(max(widths))] -= 1
    kinds = [">" if column.kind == "number" else "<" for column in table.columns]
    header, *rows = (
        " | ".join(f"{_cut(t, w):{kind}{w}}" for t, w, kind in zip(row, widths, kinds, strict=True))
        for row in texts
    )
    dashes = (
        "-" * (width + 1) + (":" if kind == ">" else "-")
        for width, kind in zip(widths, kinds, strict=True)
    )
    return "\n".join([f"| {header} |", f"|{'|'.join(dashes)}|", *(f"| {row} |" for row in rows)])


def _cut(text: str, width: int) -> str:
    """A cell's text in `width` characters, escaped: the two ends of what is longer."""
    for length in range(width, 0, -1):
        tail = (length - 1) // 2
        ends = f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"
        shown = _shown(text if len(text) <= length else ends)
        if len(shown) <= width:
            return shown
    return ""
