"""Writes index.md and index.html: all kept runs, newest first, and the main metric's trend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.reports.energy import INDEX_HEADER, INDEX_NOTE, energy_cell
from mlperf_suite.reports.html import drawn, render
from mlperf_suite.reports.markdown import in_cell
from mlperf_suite.reports.plots import BLUE, Plot
from mlperf_suite.reports.view import score_value
from mlperf_suite.results.kept_runs import Entry, Trend, read_entries, trends_of

_FIGURES = ("tokens/s", "samples/s", "TTFT p99, ms", "accuracy")
_HEADER = ("run", "of", "model", "status", "label")
_PAGE_HEADER = ("run", "status")
_GATE = "against baseline"
_MOST_TRENDS = 12


def _columns(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The names of the figures; includes energy if it was measured in any run."""
    metered = any(energy_cell(entry.energy) for entry in entries)
    return (*_FIGURES, INDEX_HEADER) if metered else _FIGURES


def _figures(entry: Entry, columns: Sequence[str]) -> tuple[str, ...]:
    ttft = _number(entry.ttft_p99_ms)
    found = (_number(entry.tokens_per_s), _number(entry.samples_per_s), ttft, _accuracy(entry))
    return (*found, energy_cell(entry.energy)) if INDEX_HEADER in columns else found


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _accuracy(entry: Entry) -> str:
    if entry.score is None:
        return "" if entry.mmlu is None else f"MMLU {entry.mmlu:,.2f}%"
    return f"{entry.score.name} {score_value(entry.score)}"


def _when(entry: Entry) -> str:
    """The date and time to the minute; the folder's name if they are not known."""
    try:
        return datetime.fromisoformat(entry.started).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return entry.name


def index_markdown(entries: Sequence[Entry]) -> str:
    """A table of all kept runs."""
    columns = _columns(entries)
    dashes = [*["---"] * len(_HEADER), *["---:"] * len(columns), "---"]
    lines = ["# Runs, newest first", "", f"| {' | '.join((*_HEADER, *columns, _GATE))} |"]
    lines.append("|" + "|".join(dashes) + "|")
    for entry in entries:
        said = (entry.kind, entry.model, entry.status, entry.label)
        figures = (*_figures(entry, columns), entry.gate)
        cells = [f"[{entry.name}]({entry.name}/report.md)", *map(in_cell, (*said, *figures))]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", INDEX_NOTE] if INDEX_HEADER in columns else []
    return "\n".join(lines) + "\n"


def index_html(entries: Sequence[Entry], trends: Sequence[Trend]) -> str:
    """The same as a page, with a plot of each trend."""
    plots = [
        Plot(f"trend_{i}", f"{t.what}; on {t.system}.", partial(_trend, t))
        for i, t in enumerate(trends[:_MOST_TRENDS])
    ]
    columns = _columns(entries)
    header = (*_PAGE_HEADER, *columns, _GATE)
    rows = [(e, _when(e), _short(e.model), _figures(e, columns)) for e in entries]
    note = INDEX_NOTE if INDEX_HEADER in columns else ""
    return render("index.html.j2", header=header, rows=rows, plots=drawn(plots), note=note)


def _short(model: str) -> str:
    """A model's name without its folder or owner."""
    return model.rstrip("/").rpartition("/")[2] or model


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
    axes.set(title=trend.what.split(",")[0], xlabel="run, oldest to newest", ylabel=trend.unit)
    axes.set_ylim(0, max(values) * 1.2)
    axes.locator_params(axis="x", integer=True)


def write_index(results_dir: Path) -> None:
    """Write index.md and index.html. Raises OSError if the folder cannot be written."""
    entries = read_entries(results_dir)
    (results_dir / "index.md").write_text(index_markdown(entries), encoding="utf-8")
    page = index_html(entries, trends_of(entries))
    (results_dir / "index.html").write_text(page, encoding="utf-8")
