"""Renders a report's sections as Markdown, for report.md and wherever text is read as it is."""

from __future__ import annotations

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


def markdown_text(sections: Sequence[Section], *, headings: bool = True) -> str:
    """The sections as Markdown, without what only a page shows.

    Without `headings`, for a terminal, titles are plain lines, and the report's own is left out.
    """
    parts: list[str] = []
    for section in sections:
        if section.blocks and all(isinstance(block, Plots) for block in section.blocks):
            continue
        status = f": {escaped(section.status)}" if section.status else ""
        if headings:
            parts.append(f"{'#' * section.level} {escaped(section.title)}{status}")
        elif section.level > 1:
            parts.append(f"{escaped(section.title)}:")
        parts += filter(None, map(_block, section.blocks))
    return "\n\n".join(parts) + "\n"


def escaped(value: object) -> str:
    """A value for a Markdown table or sentence, with all markup in it escaped."""
    text = printable(" ".join(str(value).split()))
    for mark in "\\`*_{}[]<>|#":
        text = text.replace(mark, "\\" + mark)
    return text


def _block(block: Block) -> str:  # noqa: PLR0911 - one for each kind
    match block:
        case Paragraph():
            lead = f"**{escaped(block.lead)}**" if block.lead else ""
            return " ".join(filter(None, (lead, escaped(block.text), escaped(block.status))))
        case Points():
            return _title(block.title) + "\n".join(f"- {_words(line)}" for line in block.lines)
        case Table():
            note = f"\n\n{escaped(block.note)}" if block.note else ""
            return _title(block.title) + _table(block) + note
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
