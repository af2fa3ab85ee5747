"""What a report is made of: a list of sections, each with paragraphs, lists, tables and plots.

A report is made once, from its summary; markdown.py, html.py and terminal.py render it. All text
may come from a run (model output, names of files, a server's words): the renderers escape it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlperf_suite.reports.plots import Plot

Style = Literal["", "note", "ok", "open", "bad"]
ColumnKind = Literal["text", "number", "words", "soft", "label", "badge", "rule", "unit", "what"]


@dataclass(frozen=True, slots=True)
class Words:
    """Text of a cell or a list's line. `asides`: less important, after it. `link`: where it leads,
    `hint`: what a page says of the link's target."""

    text: str
    asides: tuple[str, ...] = ()
    link: str = ""
    hint: str = ""


Cell = str | Words
Row = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph. `lead`: its beginning, in bold. `status`: a word at its end that has a colour of
    its own. `style`: "note" in small print; "ok", "open" and "bad" an answer in that colour."""

    text: str = ""
    lead: str = ""
    style: Style = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """A list with bullets."""

    lines: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column. `kind`: "number" is aligned to the right; "words" wrap in a table that
    scrolls; "soft" and "label" name a row; "badge" is a status in its colour; "rule" the name of a
    rule; "unit" a row's name, whose unit the header has; "what" a run with a link."""

    name: str = ""
    kind: ColumnKind = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; without a header if no column has a name.

    `folded`: closed at first on a page, where its title opens it. `total`: the last row is the sum.
    `style`: classes of style.css; on a phone, rows of a "wide" table become blocks, and a "broad"
    one scrolls.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    style: str = ""
    folded: bool = False
    total: bool = False


@dataclass(frozen=True, slots=True)
class Tiles:
    """The figures that readers look for first. `page_only`: the text has them in a table anyway."""

    rows: Sequence[Row]
    page_only: bool = False


@dataclass(frozen=True, slots=True)
class Plots:
    """Plots drawn into a page. `style`: plots, or smaller trends."""

    plots: Sequence[Plot]
    style: Literal["plots", "trends"] = "plots"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG file in a run's folder: its path there, and what it shows."""

    folder: Path
    name: str
    alt: str


@dataclass(frozen=True, slots=True)
class Quote:
    """Texts to one sample, each with what it is."""

    title: str
    texts: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Quotes:
    """What models said, only on a page. `beside`: the texts of a sample side by side. `folded`:
    closed at first."""

    quotes: Sequence[Quote]
    title: str = ""
    beside: bool = False
    folded: bool = False


Block = Paragraph | Points | Table | Tiles | Plots | Picture | Quotes


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report. `level`: of its heading, 1 for the report's own. `status`: a word after
    the title that has a colour of its own. `brief`: what the closing table in the terminal says
    of it."""

    title: str
    blocks: Sequence[Block] = ()
    level: int = 2
    status: str = ""
    brief: Sequence[Block] = ()


def columns(texts: Iterable[str], numbers: Iterable[str] = ()) -> tuple[Column, ...]:
    """Columns of text, then columns of numbers."""
    return (*(Column(name) for name in texts), *(Column(name, "number") for name in numbers))


def record_table(
    records: Sequence[Mapping[str, Cell]],
    texts: Collection[str] = (),
    *,
    kinds: Mapping[str, ColumnKind] | None = None,
    style: str = "wide broad",
    title: str = "",
    folded: bool = False,
) -> list[Table]:
    """A row for each record, whose keys are the columns; no table if there is none.

    `texts`: the columns of text; those that neither it nor `kinds` names have numbers.
    """
    if not records:
        return []
    header = [
        Column(name, "text" if name in texts else (kinds or {}).get(name, "number"))
        for name in records[0]
    ]
    rows = [tuple(record.values()) for record in records]
    return [Table(header, rows, title, style, folded)]


def figure_table(rows: Sequence[Row], title: str = "", *, folded: bool = False) -> Table:
    """Named figures, without a header."""
    return Table((Column(), Column(kind="number")), rows, title, "small", folded)


def fact_table(rows: Sequence[Row]) -> Table:
    """Named facts in words, without a header."""
    return Table((Column(kind="soft"), Column()), rows)


def notes(lines: Iterable[str]) -> list[Paragraph]:
    """Sentences in small print."""
    return [Paragraph(line, style="note") for line in lines]


def paragraphs(lines: Iterable[str]) -> list[Paragraph]:
    """Plain lines."""
    return [Paragraph(line) for line in lines]
