"""Writes index.md and index.html: all kept runs, newest first, and the main metric's trend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.reports.plots import BLUE
from mlperf_suite.reports.sections import (
    Cell,
    Column,
    Paragraph,
    Plot,
    Plots,
    Section,
    Table,
    Words,
    columns,
    in_unit,
    notes,
    significant,
)
from mlperf_suite.results.kept_runs import KeptRun, Trend, read_entries, trends_of

_FIGURES = ("tokens/s", "samples/s", "TTFT p99, ms", "accuracy")
_ENERGY = "J/token"
_ENERGY_NOTE = "J/token: GPU energy by NVML or CPU energy by RAPL, not MLPerf Power."
_TEXT_COLUMNS = (Column("run"), Column("of"), Column("model"), Column("status"), Column("label"))
_PAGE_COLUMNS = (Column("run", "what"), Column("status", "badge"))
_MOST_TRENDS = 12


def write_index(results_dir: Path) -> None:
    """Write index.md and index.html. Raises OSError if the folder cannot be written."""
    entries = read_entries(results_dir)
    (results_dir / "index.md").write_text(index_markdown(entries), encoding="utf-8")
    page = index_html(entries, trends_of(entries))
    (results_dir / "index.html").write_text(page, encoding="utf-8")


def index_markdown(entries: Sequence[KeptRun]) -> str:
    """A table of all kept runs."""
    names = [
        (Words(e.name, link=f"{quote(e.name)}/report.md"), e.kind, e.model, e.status, e.label)
        for e in entries
    ]
    table = _table(entries, _TEXT_COLUMNS, names)
    return markdown_text([Section("Runs, newest first", [table, *_energy_note(entries)], 1)])


def index_html(entries: Sequence[KeptRun], trends: Sequence[Trend]) -> str:
    """The same as a page, with a plot of each trend; a run's columns stand in one, to fit it."""
    sections = [Section("Runs, newest first", level=1)]
    if trends:
        note = "The main metric of runs of the same system, scenario and model that are kept."
        plots = [
            Plot(f"trend_{i}", f"{t.runs}; on {t.system}.", partial(_trend, t))
            for i, t in enumerate(trends[:_MOST_TRENDS])
        ]
        sections.append(Section("Trends", [*notes([note]), Plots(plots, "trends")]))
    if entries:
        names = [(_name(entry), entry.status) for entry in entries]
        table = _table(entries, _PAGE_COLUMNS, names, "wide runs")
        sections.append(Section("Every run", [table, *_energy_note(entries)]))
    else:
        sections.append(Section("Every run", [Paragraph("No run is kept here.")]))
    return html_page(sections, title="Runs")


def _table(
    entries: Sequence[KeptRun],
    columns_before: Sequence[Column],
    cells_before: Sequence[tuple[Cell, ...]],
    style: str = "",
) -> Table:
    """What each run is, in its medium's columns, then its figures and the gate's verdict."""
    figures = (*_FIGURES, _ENERGY) if _is_metered(entries) else _FIGURES
    header = (*columns_before, *columns((), figures), Column("against baseline", "badge"))
    rows = [
        (*cells, *_figures(entry)[: len(figures)], entry.gate)
        for entry, cells in zip(entries, cells_before, strict=True)
    ]
    return Table(header, rows, style=style)


def _name(entry: KeptRun) -> Words:
    short_model = entry.model.rstrip("/").rpartition("/")[2] or entry.model
    asides = (f"{_when(entry)}, {short_model}", entry.label)
    hint = f"{entry.name}, {entry.model}"
    return Words(entry.kind, asides, f"{quote(entry.name)}/report.html", hint)


def _when(entry: KeptRun) -> str:
    """The date and time to the minute; the folder's name if they are not known."""
    try:
        return datetime.fromisoformat(entry.started).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return entry.name


def _figures(entry: KeptRun) -> tuple[str, ...]:
    rates = (entry.tokens_per_s, entry.samples_per_s, entry.ttft_p99_ms)
    return (*map(_number, rates), _accuracy(entry), _energy(entry))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _accuracy(entry: KeptRun) -> str:
    if entry.score is None:
        return "" if entry.mmlu is None else f"MMLU {entry.mmlu:,.2f}%"
    return f"{entry.score.name} {in_unit(entry.score.value, entry.score.unit)}"


def _energy(entry: KeptRun) -> str:
    """The joules per token of the first kind of device that was measured; empty if none was."""
    for kind in entry.energy.measured if entry.energy else ():
        mark = "SIMULATED " if entry.energy and entry.energy.simulated else ""
        return f"{mark}{kind.kind} {significant(kind.joules_per_token)}"
    return ""


def _is_metered(entries: Sequence[KeptRun]) -> bool:
    return any(map(_energy, entries))


def _energy_note(entries: Sequence[KeptRun]) -> list[Paragraph]:
    return notes([_ENERGY_NOTE] if _is_metered(entries) else [])


def _trend(trend: Trend, axes: Any, ink: str) -> None:
    values = [value for _, value in trend.points]
    axes.plot(range(1, len(values) + 1), values, "o-", color=BLUE, markersize=4)
    axes.annotate(
        f"{values[-1]:,.4g}",
        (len(values), values[-1]),
        textcoords="offset points",
        xytext=(6, 0),
        va="center",
        color=ink,
    )
    axes.margins(x=0.16)
    axes.set(title=trend.runs.split(",")[0], xlabel="run, oldest to newest", ylabel=trend.unit)
    axes.set_ylim(0, max(values) * 1.2)
    axes.locator_params(axis="x", integer=True)
