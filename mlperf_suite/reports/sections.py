"""What a report is made of: a list of sections, each with paragraphs, lists, tables and plots.

A report is made once, from its summary; markdown.py, html.py and terminal.py render it. All text
may come from a run (model output, names of files, a server's words): the renderers escape it.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from mlperf_suite.results.run_folder import write_whole
from mlperf_suite.results.schema import CONFIDENCE
from mlperf_suite.rules.verdict import figure_words, in_words, time_words

_INK, GRID = "#101112", "#909192"
"""Placeholders for the page's colours in inline SVG."""
_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
NOT_REPORTED = "not reported"
_MAX_EFFICIENCY_RANGE = 0.5
"""The widest interval of a scaling efficiency that says something."""
_ABOVE_ALL = (
    "; above 100%, so something else slowed the one alone down: measure again on machines that do "
    "nothing else"
)
_MAX_LINES = 4
"""The most lines of a plot's title or label."""
Style = Literal["", "note", "ok", "open", "bad"]
ColumnKind = Literal["text", "number", "words", "soft", "label", "badge", "rule", "what"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the terminal: `label` in bold, `text`, and `status` in its colour at the end.
    `style`: of the text.

    `label`: "" leaves its column empty, None takes the whole width.
    """

    label: str | None
    text: str
    status: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """Text of a cell or a list's line. `asides`: less important, after it. `link`: where it leads,
    `hint`: what a page says of the link's target. `style`: as in `Paragraph`, of a badge."""

    text: str
    asides: tuple[str, ...] = ()
    link: str = ""
    hint: str = ""
    style: Style = ""


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
    """A list with bullets; with a title, folded as a table is."""

    lines: Sequence[Cell]
    title: str = ""

    @property
    def folded(self) -> bool:
        """Whether it is closed at first on a page."""
        return bool(self.title)


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column. `kind`: "number" is aligned to the right; "words" wrap in a table that
    scrolls; "soft" and "label" name a row; "badge" is a status in its colour; "rule" the name of a
    rule; "what" a run with a link."""

    name: str = ""
    kind: ColumnKind = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; without a header if no column has a name.

    `folded`: closed at first on a page, where its title opens it. `note`: below it, in small print.
    `total`: the last row is the sum.
    `style`: classes of style.css; on a phone, rows of a "wide" table become blocks, and a "broad"
    one scrolls.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    style: str = ""
    folded: bool = False
    total: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The figures that readers look for first."""

    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its file name, its caption and the function that draws it on matplotlib axes.

    `panels`: stacked axes that share their x axis; if there are several, `draw` gets all of them.
    `size`: of the whole, width and height in inches; by default it follows from the panels.
    """

    name: str
    caption: str
    draw: Any
    panels: int = 1
    size: tuple[float, float] | None = None

    def figure(self, ink: str, grid: str) -> Any:
        """The drawn figure, with text in `ink` and grid lines in `grid`."""
        import matplotlib as mpl
        from matplotlib.figure import Figure

        style: Any = {
            **dict.fromkeys(_INKED, ink),
            "font.size": 10,
            "grid.color": grid,
            "grid.alpha": 0.25,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
        }
        with mpl.rc_context(style):
            size = self.size or (5.2, 3.2 + 2.0 * (self.panels - 1))
            figure = Figure(figsize=size, layout="constrained")
            axes = figure.subplots(self.panels, sharex=True)
            for panel in figure.axes:
                panel.grid(True)
            self.draw(axes, ink)
        return figure

    def png(self, path: Path) -> None:
        """Write the plot as an image with a white background."""
        save_figure(self.figure("black", "#808080"), path, dpi=130, facecolor="white")

    def svg(self) -> str:
        """The plot as an SVG element; text, axes and grid take the surrounding text's colour."""
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}):
            figure = self.figure(_INK, GRID)
            content = _drawn(figure, "svg", transparent=True, metadata={"Date": None})
        _, _, body = content.decode().partition("<svg")
        return "<svg" + body.replace(_INK, "currentColor").replace(GRID, "currentColor")


def save_figure(figure: Any, path: Path, **style: Any) -> None:
    """Write a figure of matplotlib in the format that the file's name ends with.

    Raises OSError.
    """
    content = _drawn(figure, path.suffix[1:].lower(), **style)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)


def _drawn(figure: Any, kind: str, **style: Any) -> bytes:
    """A figure as a file. What is written in it may be untrusted: it is cut, and no formula."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_text("\n".join(map(in_words, text.get_text().split("\n")[:_MAX_LINES])))
    content = io.BytesIO()
    figure.savefig(content, format=kind, **style)
    return content.getvalue()


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
class Code:
    """Lines for a shell, to copy as one."""

    lines: Sequence[str]


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


Block = Paragraph | Points | Table | Tiles | Plots | Picture | Code | Quotes


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report. `level`: of its heading, 1 for the report's own. `status`: words after
    the title, in the colour of `style`. `brief`: what the terminal says of it."""

    title: str
    blocks: Sequence[Block] = ()
    level: int = 2
    status: str = ""
    style: Style = ""
    brief: Sequence[Block] = ()


def file_link(name: str) -> str:
    """The link to a file in the report's folder."""
    return quote(name.lstrip("/"), errors="replace")


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
    note: str = "",
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
    return [Table(header, rows, title, style, folded, note=note)]


def figure_table(rows: Sequence[Row], title: str = "", *, folded: bool = False) -> Table:
    """Named figures, without a header."""
    return Table((Column(), Column(kind="number")), rows, title, "small", folded)


def fact_table(rows: Sequence[Row], title: str = "", note: str = "") -> Table:
    """Named facts in words, without a header; under a title they are folded."""
    return Table((Column(kind="soft"), Column()), rows, title, folded=bool(title), note=note)


def notes(lines: Iterable[str]) -> list[Paragraph]:
    """Sentences in small print."""
    return [Paragraph(line, style="note") for line in lines]


def paragraphs(lines: Iterable[str]) -> list[Paragraph]:
    return [Paragraph(line) for line in lines]


# How figures are written


def decimal(value: float | None, digits: int = 2) -> str:
    """A figure with this many digits after the point."""
    return NOT_REPORTED if value is None else f"{value:,.{digits}f}"


def time_cell(value_ms: float | None) -> str:
    """A time given in ms, with its unit."""
    return NOT_REPORTED if value_ms is None else time_words(value_ms)


def significant(value: float | None) -> str:
    """A figure in four significant digits: a token can take 0.0001 J or 100 J."""
    return "not known" if value is None else figure_words(value)


def percentage(share: float | None) -> str:
    """A share in percent with one decimal."""
    return NOT_REPORTED if share is None else f"{share * 100:,.1f}%"


def efficiency_words(share: float, low: float | None, high: float | None, source: str) -> str:
    """A scaling efficiency with its interval at `CONFIDENCE`, and what makes it doubtful.

    `low`, `high`: None if nothing was repeated. `source`: of the interval, or of none.
    """
    if low is None or high is None:
        ends = f"no interval, {source}"
    elif high - low > _MAX_EFFICIENCY_RANGE:
        ends = f"too noisy to say: {percentage(low)} to {percentage(high)}, {source}"
    else:
        ends = f"{percentage(low)} to {percentage(high)} at {CONFIDENCE * 100:g}%, {source}"
    return f"{percentage(share)} ({ends}{_ABOVE_ALL if share > 1 else ''})"


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration in a suitable unit."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def in_utc(moment: str) -> str:
    """A moment in ISO 8601 as words; another text as it is."""
    with contextlib.suppress(ValueError, OverflowError):
        return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return moment


def in_unit(value: float, unit: str) -> str:
    """A score or its limit without its unit: percentages with four decimals, as in the rules; whole
    numbers whole."""
    whole = unit != "%" and float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:,.4f}"
