"""Renders the closing summary and sections' brief parts in the terminal, in 80 columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from mlperf_suite.reports.closing import COLUMNS, LABEL, closing_lines
from mlperf_suite.reports.run_report import verdict_table
from mlperf_suite.reports.sections import Block, Cell, Column, Line, Paragraph, Table
from mlperf_suite.results.schema import Summary
from mlperf_suite.untrusted_files import printable

_COLOURS = {
    "passed": "green",
    "failed": "bold red",
    "shortened": "yellow",
    "not judged": "yellow",
    "complete": "green",
    "invalid": "bold red",
    "running": "yellow",
    "regressed": "bold red",
    "improved": "green",
    "LoadGen: VALID": "green",
    "LoadGen: INVALID": "bold red",
    "not compared": "bold red",
    "cannot tell": "yellow",
    "ok": "green",
    "open": "yellow",
    "bad": "bold red",
}
"""The colour of each status and of each style of a paragraph."""


def closing_view(summary: Summary, folder: Path, *, every_rule: bool = False) -> RenderableType:
    """A run's summary for the end of a session, after a table of `every_rule` if asked for."""
    table = terminal_view(verdict_table(summary.verdicts, brief=True)) if every_rule else ""
    lines = [_closing_line(line) for line in closing_lines(summary, folder)]
    return Group(*([table] if table else []), *lines)


def _closing_line(line: Line) -> Text:
    label = "" if line.label is None else f"{line.label:{LABEL}}"
    style = "bold" if line.style == "head" else _COLOURS.get(line.style, "")
    text = Text.assemble((label, "bold"), (_printable(line.text), style))
    if line.status:
        text.pad_right(COLUMNS - text.cell_len - len(line.status))
        text.append(line.status, _COLOURS.get(line.status, ""))
    text.no_wrap, text.overflow = True, "ignore"
    return text


def terminal_view(blocks: Iterable[Block]) -> RenderableType:
    """Paragraphs and tables in the terminal's colours."""
    return Group(*(view for block in blocks for view in _views(block)))


def _views(block: Block) -> list[RenderableType]:
    if isinstance(block, Table):
        return [_table(block)]
    if not isinstance(block, Paragraph):
        return []
    text = Text(_printable(block.text), _COLOURS.get(block.style, ""))
    if block.lead:
        space = " " if block.text else ""
        text = Text.assemble((_printable(block.lead), "bold"), space, text)
    if block.status:
        text.append(", ").append(_printable(block.status), _COLOURS.get(block.status, ""))
    return [text]


def _printable(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _table(block: Table) -> RichTable:
    table = RichTable(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for column in block.columns:
        is_name = column.kind in ("rule", "badge")
        table.add_column(
            Text(_printable(column.name)),
            justify="right" if column.kind == "number" else "left",
            no_wrap=is_name,
            overflow="ellipsis" if is_name else "fold",
        )
    for number, row in enumerate(block.rows, 1):
        is_total = block.total and number == len(block.rows)
        table.add_row(*map(_cell, block.columns, row), style="bold" if is_total else None)
    return table


def _cell(column: Column, value: Cell) -> Text:
    text = _printable(value if isinstance(value, str) else value.text)
    return Text(text, _COLOURS.get(text, "") if column.kind == "badge" else "")
