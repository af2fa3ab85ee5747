"""index.md and index.html: every kept run, newest first, and what became of the main metric."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.reports.energy import INDEX_HEADER, energy_cell
from mlperf_suite.reports.html import drawn, render
from mlperf_suite.reports.markdown import in_cell
from mlperf_suite.reports.plots import BLUE, Plot
from mlperf_suite.reports.view import score_value
from mlperf_suite.results.kept_runs import Entry, Trend, read_entries, trends_of

_HEADER = (
    *("run", "model", "status", "label", "tokens/s", "samples/s"),
    *("TTFT p99, ms", "score", "MMLU, %", "against baseline"),
)
_NUMBERS = slice(4, 9)
_MOST_TRENDS = 12


def _header(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The columns; energy has one where any run's was measured."""
    return (*_HEADER, INDEX_HEADER) if any(energy_cell(e.energy) for e in entries) else _HEADER


def _cells(entry: Entry, header: Sequence[str]) -> tuple[str, ...]:
    energy = (energy_cell(entry.energy),) if INDEX_HEADER in header else ()
    return (
        entry.model,
        entry.status,
        entry.label,
        _number(entry.tokens_per_s),
        _number(entry.samples_per_s),
        _number(entry.ttft_p99_ms),
        _score(entry),
        _number(entry.mmlu),
        entry.gate,
        *energy,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _score(entry: Entry) -> str:
    return f"{entry.score.name} {score_value(entry.score)}" if entry.score else ""


def index_markdown(entries: Sequence[Entry]) -> str:
    """A table over all kept runs."""
    header = _header(entries)
    dashes = ["---"] * len(header)
    dashes[_NUMBERS] = ["---:"] * len(dashes[_NUMBERS])
    lines = ["# Runs, newest first", "", "| " + " | ".join(header) + " |"]
    lines.append("|" + "|".join(dashes) + "|")
    for entry in entries:
        cells = [f"[{entry.name}]({entry.name}/report.md)", *map(in_cell, _cells(entry, header))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def index_html(entries: Sequence[Entry], trends: Sequence[Trend]) -> str:
    """The same as a page, with a plot of each trend."""
    plots = [
        Plot(f"trend_{i}", f"{t.what}; on {t.system}.", partial(_trend, t))
        for i, t in enumerate(trends[:_MOST_TRENDS])
    ]
    header = _header(entries)
    rows = [(entry.name, entry.status, _cells(entry, header)) for entry in entries]
    return render("index.html.j2", header=header, rows=rows, plots=drawn(plots))


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
    """Write index.md and index.html. Raises OSError where the folder cannot be written."""
    entries = read_entries(results_dir)
    (results_dir / "index.md").write_text(index_markdown(entries), encoding="utf-8")
    page = index_html(entries, trends_of(entries))
    (results_dir / "index.html").write_text(page, encoding="utf-8")
