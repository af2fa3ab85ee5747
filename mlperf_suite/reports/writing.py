"""Writes the reports and plots of a run from its folder alone, and the index of all kept runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.loadgen.timeline import read_timeline
from mlperf_suite.reports.feature_report import IndexColumn, feature_reports
from mlperf_suite.reports.headline import findings, status_words
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.reports.performance_sections import RATES
from mlperf_suite.reports.plots import BLUE
from mlperf_suite.reports.run_report import page_title, reproduction, run_sections
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
    file_link,
    in_unit,
    in_utc,
    notes,
    significant,
)
from mlperf_suite.results.performance_figures import performance_figures
from mlperf_suite.results.run_folder import (
    SUMMARY_JSON,
    KeptRun,
    RunFolder,
    Trend,
    read_config,
    read_entries,
    read_object,
    read_summary,
    results_lock,
    summary_fault,
    trends_of,
    write_json,
    write_json_list,
    write_whole,
)
from mlperf_suite.results.schema import Config, Summary
from mlperf_suite.rules.verdict import time_words

ANSWERS_JSON, SAMPLES_JSON = "answers.json", "samples.json"
"""In an accuracy run's folder: the text of every answer, and a few answers with input and
reference."""
_SAMPLES = 3
_INPUT_CHARACTERS = 400
_FIGURES = ("tokens/s", "samples/s", "TTFT p99", "accuracy")
_TEXT_COLUMNS = tuple(map(Column, ("run", "benchmark", "measured", "status", "label")))
_PAGE_COLUMNS = (Column("run", "what"), Column("status", "badge"))
_MAX_TRENDS = 12


def write_samples(
    folder: Path, indices: Sequence[int], answers: Sequence[str], samples: Sequence[Sample]
) -> None:
    """Write each answer's text beside the logs, and a few with their inputs for the report.

    `samples`: by their index in the QSL. `indices`: of the answers, in the data's order.
    """
    entries = (
        {"index": index, "answer": answer} for index, answer in zip(indices, answers, strict=True)
    )
    write_json_list(folder / ANSWERS_JSON, "answers", entries)
    few = [
        {"index": index, "input": samples[index].input[:_INPUT_CHARACTERS]}
        | {"answer": answer, "reference": samples[index].reference}
        for index, answer in zip(indices[:_SAMPLES], answers, strict=False)
    ]
    write_json(folder / SAMPLES_JSON, {"samples": few})


def refresh_figures(folder: Path) -> None:
    """Read the performance figures of the run in this folder again from LoadGen's log.

    What no log contains (LoadGen's run time, the tokens counted by the SUT, scores) stays as in
    summary.json. Raises UsageError if there is no readable summary.json.
    """
    summary = _summary(folder)
    scenario, detail = _scenario(summary), read_logs(folder / "Performance").detail
    old = summary.run.performance
    if scenario is None or old is None or detail["result_validity"] is None:
        return
    elapsed_s, tokens = old.duration_s or 0.0, old.total_new_tokens or 0
    timeline = read_timeline(folder / "Performance")
    figures = performance_figures(scenario, detail, elapsed_s, tokens, timeline)
    figures = replace(figures, repeats=old.repeats, untimed=old.untimed, made_again=old.made_again)
    run = replace(summary.run, performance=figures)
    write_json(folder / SUMMARY_JSON, replace(summary, run=run).as_json())


def _scenario(summary: Summary) -> Scenario | None:
    """The scenario of a summary, with its limits; None if it is not known."""
    benchmark = BENCHMARKS.get(summary.meta.benchmark or "")
    scenarios = benchmark.every_scenario if benchmark else ()
    return next((s for s in scenarios if s.name == summary.meta.scenario), None)


def _summary(folder: Path) -> Summary:
    summary = read_summary(folder)
    if summary is None:
        raise UsageError(f"{folder}: {summary_fault(folder)}")
    return summary


def write_reports(folder: Path) -> None:
    """Write report.md, report.html and plots/ of the run in this folder; those of a feature's own
    result are kept.

    Raises UsageError if there is no readable summary.json, OSError if the folder cannot be
    written.
    """
    summary, config = _summary(folder), Config.read(read_config(folder))
    title = ""
    if own := next((report for report in feature_reports(summary) if report.name(summary)), None):
        sections = own.page(summary, folder, config)
    else:
        sections, title = _sections_with_plots(folder, summary, config), page_title(summary)
    sections = [*sections, *reproduction(summary.meta)]
    # A link in an untrusted folder is replaced, not written through.
    write_whole(folder / "report.md", markdown_text(sections))
    write_whole(folder / "report.html", html_page(sections, title=title))


def _sections_with_plots(folder: Path, summary: Summary, config: Config) -> list[Section]:
    """A run's report, whose plots are written too and named in its summary, once it has ended:
    drawing takes seconds, which the session's other runs would wait for."""
    if summary.meta.status == "running":
        return run_sections(summary, config, [], _samples(folder))
    reports, scenario = feature_reports(summary), _scenario(summary)
    plots = [plot for of in reports for plot in of.curves(summary, folder, scenario)]
    if (folder / "plots").is_symlink():
        (folder / "plots").unlink()
    drawings = [*plots, *(p for report in reports for p in report.plots(summary))]
    for plot in drawings:
        plot.png(folder / "plots" / f"{plot.name}.png")
    if drawings:
        names = {f"plots/{plot.name}.png" for plot in drawings} | set(summary.plots)
        summary = replace(summary, plots=tuple(sorted(names)))
        write_json(folder / SUMMARY_JSON, summary.as_json())
    return run_sections(summary, config, plots, _samples(folder))


def _samples(folder: Path) -> list[dict[str, str]]:
    """The answers that were kept."""
    content = (read_object(folder / "Accuracy" / SAMPLES_JSON) or {}).get("samples")
    names = ("index", "input", "answer", "reference")
    return [
        {name: str(sample.get(name, "")) for name in names}
        for sample in (content if isinstance(content, list) else ())
        if isinstance(sample, dict)
    ]


# The index


def publish(folder: RunFolder, keep: Iterable[Path] | None, *, ended: bool = True) -> None:
    """Make a run known in its results folder: the index and, once it `ended`, `latest`. `keep`:
    None keeps all older runs of its kind, else these. Raises OSError if the folder cannot be
    written."""
    with results_lock(folder.path.parent):
        if ended:
            folder.publish()
        if keep is not None:
            folder.drop_older(keep)
        write_index(folder.path.parent)


def write_index(results_dir: Path) -> None:
    """Write index.md and index.html. Raises OSError if the folder cannot be written."""
    entries = read_entries(results_dir)
    write_whole(results_dir / "index.md", index_markdown(entries))
    write_whole(results_dir / "index.html", index_html(entries, trends_of(entries)))


def index_markdown(entries: Sequence[KeptRun]) -> str:
    names = [
        (
            Words(entry.name, link=f"{file_link(entry.name)}/report.md"),
            entry.summary.meta.title or "?",
            entry.summary.measured,
            _status(entry),
            entry.summary.meta.label or "",
        )
        for entry in entries
    ]
    table = _table(entries, _TEXT_COLUMNS, names)
    return markdown_text([Section("Runs, newest first", [table, *_notes(entries)], 1)])


def index_html(entries: Sequence[KeptRun], trends: Sequence[Trend]) -> str:
    """The same as a page, with a plot of each trend; a run's columns stand in one, to fit it."""
    sections = [Section("Runs, newest first", level=1)]
    if trends:
        note = "The main metric of the kept runs, by system, scenario and model."
        plots = [
            Plot(f"trend_{i}", f"{t.runs}; on {t.system}.", partial(_trend, t))
            for i, t in enumerate(trends[:_MAX_TRENDS])
        ]
        sections.append(Section("Trends", [*notes([note]), Plots(plots, "trends")]))
    if entries:
        names = [(_name(entry), _status(entry)) for entry in entries]
        table = _table(entries, _PAGE_COLUMNS, names, "wide runs")
        sections.append(Section("Every run", [table, *_notes(entries)]))
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
    added = _feature_columns(entries)
    figures = columns((), (*_FIGURES, *(column.name for column in added)))
    header = (*columns_before, *figures, Column("compared with baseline", "badge"))
    rows = [
        (*cells, *_figures(entry), *(column.cell(entry.summary) for column in added), entry.gate)
        for entry, cells in zip(entries, cells_before, strict=True)
    ]
    return Table(header, rows, style=style)


def _name(entry: KeptRun) -> Words:
    meta = entry.summary.meta
    when = in_utc(meta.started or entry.name)
    asides = (f"{when}, {entry.summary.measured}", meta.label or "")
    hint = f"{entry.name}, {meta.model or '?'}"
    return Words(meta.title or "?", asides, f"{file_link(entry.name)}/report.html", hint)


def _status(entry: KeptRun) -> Words:
    """What became of a run: its report's title, and the first words of its banner."""
    if entry.fault:
        return Words(entry.fault)
    worst = findings(entry.summary)[0]
    return Words(
        status_words(entry.summary) + ":" * bool(worst.text), (worst.text,), style=worst.style
    )


def _figures(entry: KeptRun) -> tuple[str, ...]:
    run, performance = entry.summary.run, entry.performance
    ttft_p99 = (performance.ttft_ms or {}).get("p99")
    rates = (performance.mean(name) for _, name in RATES)
    accuracy = "".join(report.score(entry.summary) for report in feature_reports(entry.summary))
    for score in run.accuracy.scores[:1] if run.accuracy else ():
        accuracy = f"{score.name} {in_unit(score.value, score.unit)}"
    numbers = ("" if value is None else f"{value:,.2f}" for value in rates)
    time = "" if ttft_p99 is None else time_words(ttft_p99)
    return (*numbers, time, accuracy)


def _feature_columns(entries: Sequence[KeptRun]) -> list[IndexColumn]:
    """The columns that features add, if a run has something to say in them."""
    summaries = [entry.summary for entry in entries]
    columns = [c for report in feature_reports(*summaries) for c in report.index_columns()]
    return [c for c in columns if any(c.cell(summary) for summary in summaries)]


def _notes(entries: Sequence[KeptRun]) -> list[Paragraph]:
    return notes(column.note for column in _feature_columns(entries))


def _trend(trend: Trend, axes: Any, ink: str) -> None:
    values = [value for _, value in trend.points]
    axes.plot(range(1, len(values) + 1), values, "o-", color=BLUE, markersize=4)
    place = {"textcoords": "offset points", "xytext": (6, 0), "va": "center"}
    axes.annotate(significant(values[-1]), (len(values), values[-1]), color=ink, **place)
    axes.margins(x=0.16)
    axes.set(title=trend.runs.split(",")[0], xlabel="run, oldest to newest", ylabel=trend.unit)
    axes.set_ylim(0, max(values) * 1.2)
    axes.locator_params(axis="x", integer=True)
