"""What the tests of reports read: the texts of a summary's reports, and the tables in them."""

import io
import re
from html.parser import HTMLParser
from pathlib import Path

from rich.console import Console

from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.reports.run_report import run_sections
from mlperf_suite.reports.terminal import closing_view
from mlperf_suite.results.schema import Config, Summary

HOSTILE = '<script>alert(1)</script> & "quoted" | `code` </style><img src=x onerror=alert(1)>'


_CELLS = ("td", "th", "dt", "dd")


class _Page(HTMLParser):
    """A page's tags, and the text of each table's cells, row by row; a tile is a row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self._cell: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag in ("tr", "dt"):
            self.rows.append([])
        if tag in _CELLS:
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in _CELLS and self._cell is not None:
            self.rows[-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)


def page_rows(text: str) -> list[list[str]]:
    return _Page(text).rows


def page_tags(text: str) -> set[str]:
    return _Page(text).tags


def unescaped(markdown: str) -> str:
    return re.sub(r"\\(.)", r"\1", markdown)


def markdown_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    lines = [line for line in lines if set(line) - set("|-: ")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    return [[unescaped(cell.strip()) for cell in row] for row in cells]


def reports_of(summary: Summary, config: Config | None = None) -> tuple[str, str]:
    sections = run_sections(summary, config)
    return markdown_text(sections), html_page(sections)


def terminal_text(summary: Summary) -> str:
    """The closing summary on a terminal of 80 columns."""
    output = io.StringIO()
    Console(file=output, width=80).print(closing_view(summary, Path("run")), soft_wrap=True)
    return output.getvalue()
