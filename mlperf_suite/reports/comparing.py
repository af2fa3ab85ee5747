"""Compares several runs in a Markdown table, an HTML page and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.reports.answers import AnswersBeside, answers_beside
from mlperf_suite.reports.html import drawn, render
from mlperf_suite.reports.markdown import in_cell
from mlperf_suite.reports.plots import BLUE, ORANGE, Plot
from mlperf_suite.reports.view import shown
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.regression import Metric, metrics_of, samples_of
from mlperf_suite.results.schema import Config
from mlperf_suite.rules.verdict import in_words

PLOT_FORMATS = (".png", ".svg", ".pdf")
"""File name extensions for a plot; each selects a format."""
_OTHER_SAMPLES = "These runs have different samples, so their figures do not compare the systems:"
_COST_NOTE = (
    "The difference is the cost of the network and the server's front end only if the server has "
    "the same engine, settings and hardware as the other run, which the suite cannot check."
)
Row = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Beside:
    """Two runs. `rows`: name, value of each run, and the difference. `answers`: those that both
    runs kept, None if there are none."""

    title: str
    names: tuple[str, str]
    rows: list[Row]
    notes: list[str]
    answers: AnswersBeside | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs compared with the first one. `other_samples`: evidence that runs do not have the first
    run's samples. `rows`: one per run, under `header`."""

    other_samples: list[str]
    header: list[str]
    rows: list[list[str]]
    pairs: list[Beside]
    not_alike: list[str]
    failed: list[str]


def _name(run: BaselineRun) -> str:
    return run.folder.resolve().name if run.folder else Path(run.named).name


def _metrics(runs: Sequence[BaselineRun]) -> list[tuple[Metric, list[float | None]]]:
    """The metrics that at least one run has, with each run's value."""
    found = []
    for metric in metrics_of(run.summary for run in runs):
        samples = [samples_of(metric, run.summary) for run in runs]
        if any(samples):
            found.append((metric, [one.value if one else None for one in samples]))
    return found


def _status(run: BaselineRun) -> str:
    meta = run.summary.meta
    words = [meta.status, *filter(None, [run.summary.no_result])]
    return f"{', '.join(words)}: {meta.reason}" if meta.reason else ", ".join(words)


def _failed_rules(run: BaselineRun) -> list[str]:
    lines = []
    for rule in run.summary.verdicts:
        if rule.status == "failed":
            why = f" ({rule.why})" if rule.why else ""
            found = f"found {rule.found}, required {rule.required}{why}"
            lines.append(f"{_name(run)}: {rule.rule}: {found}")
    return lines


def compare_runs(runs: Sequence[BaselineRun], max_regression: float) -> Comparison:
    """Each run's figures, and how they compare with the first run's.

    `max_regression`: the relative loss that still passes. A run of another benchmark or scenario
    is listed with its figures only.
    """
    first, metrics = runs[0], _metrics(runs)
    header = ["run", "status", *(f"{metric.label}, {metric.unit}" for metric, _ in metrics)]
    rows: list[list[str]] = []
    not_alike: list[str] = []
    for number, run in enumerate(runs):
        cells = [_name(run), _status(run)]
        changes, notes = _changes(first, run, max_regression) if number else ({}, [])
        for metric, values in metrics:
            change = changes.get(metric.name)
            cells.append(shown(values[number]) + (f", {change}" if change else ""))
        rows.append(cells)
        not_alike += first.differences(run.identity, (_name(first), _name(run)))
        not_alike += notes
        if urls := _urls(run):
            where = f"hardware: not known for the servers of {_name(run)} ({urls})"
            not_alike.append(f"{where}; the machine in its results is the client's")
    return Comparison(
        [words for run in runs[1:] for words in _other_samples(first, run)],
        [name.replace("tokens/s, tokens/s", "tokens/s") for name in header],
        rows,
        [_beside(first, run) for run in runs[1:] if first.kind == run.kind],
        not_alike,
        [line for run in runs for line in _failed_rules(run)],
    )


def losses(first: BaselineRun, run: BaselineRun, max_regression: float) -> list[str]:
    """The metrics in which a run lost against the first, or why it cannot be compared, a line each.

    `max_regression`: the relative loss that still passes; a loss within the noise passes too.
    """
    folder = run.folder or Path(run.named)
    judged = first.judge(run.summary, folder, max_regression)
    if judged.refused:
        return [f"{_name(run)}: {judged.refused}"]
    return [
        f"{_name(run)}: {one.metric}: {one.words}, {one.baseline:,.6g} then and "
        f"{one.current:,.6g} {one.unit} now"
        for one in judged.metrics
        if one.outcome == "regressed"
    ]


def _other_samples(first: BaselineRun, run: BaselineRun) -> list[str]:
    """Evidence that two runs have different samples; values missing in either are ignored."""
    one, other = (each.config or Config() for each in (first, run))
    pairs = (
        ("benchmark", first.summary.meta.benchmark, run.summary.meta.benchmark),
        ("data", first.summary.meta.dataset, run.summary.meta.dataset),
        ("data sha256", one.dataset.sha256, other.dataset.sha256),
        ("samples", first.summary.meta.samples, run.summary.meta.samples),
        ("prompts sha256", one.prompts_sha256, other.prompts_sha256),
    )
    return [
        f"{name}: {_name(first)} {mine}, {_name(run)} {theirs}"
        for name, mine, theirs in pairs
        if mine is not None and theirs is not None and mine != theirs
    ]


def _changes(
    first: BaselineRun, run: BaselineRun, max_regression: float
) -> tuple[dict[str, str], list[str]]:
    """By metric, its change against the first run; and a note on what limits the comparison."""
    if first.kind != run.kind:
        return {}, []
    folder = run.folder or Path(run.named)
    judged = first.judge(run.summary, folder, max_regression, allow_different=True)
    changes = {one.metric: f"{one.words} {one.outcome}" for one in judged.metrics}
    return changes, [judged.note] if judged.note else []


def _urls(run: BaselineRun) -> str:
    """The servers of a run, empty if its engine was in the suite's own process."""
    remote = run.summary.run.remote.values()
    return ", ".join(dict.fromkeys(in_words(e.url) for one in remote for e in one.endpoints))


def _beside(first: BaselineRun, run: BaselineRun) -> Beside:
    """Compare two runs; if only one has its engine in the suite's process, it comes first."""
    one, other = (run, first) if _urls(first) and not _urls(run) else (first, run)
    both = (one, other)
    notes = [f"{_name(r)} is {r.summary.no_result}." for r in both if r.summary.no_result]
    title = "Side by side"
    if _urls(other) and not _urls(one) and not notes and not _other_samples(one, other):
        title = "What the network and the server's front end cost"
        notes = [_COST_NOTE, *_client_note(other)]
    kept = None
    same_data = one.summary.meta.dataset == other.summary.meta.dataset
    if one.folder and other.folder and same_data:
        kept = answers_beside(one.folder, other.folder)
    rows = [*_words(one, other), *_figures(one, other)]
    return Beside(title, (_name(one), _name(other)), rows, notes, kept)


def _client_note(run: BaselineRun) -> list[str]:
    """The client's part of the difference; none for Offline, where requests do not wait for it."""
    remote = run.summary.run.remote.get("performance")
    if remote is None or run.summary.meta.scenario == "Offline":
        return []
    out, back = (shown(value) for value in (remote.client.out_ms, remote.client.back_ms))
    return [f"The suite's own client took {out} ms of it on the way out and {back} ms back (p99)."]


def _words(one: BaselineRun, other: BaselineRun) -> list[Row]:
    rows = []
    for what, values in (
        ("engine", [_engine(run) for run in (one, other)]),
        ("where", [_urls(run) or "in the suite's process" for run in (one, other)]),
        ("label", [run.summary.meta.label or "" for run in (one, other)]),
    ):
        if any(values):
            rows.append((what, values[0], values[1], ""))
    return rows


def _engine(run: BaselineRun) -> str:
    engine = run.config.engine if run.config else None
    return f"{engine.name} {engine.version}" if engine else ""


def _figures(one: BaselineRun, other: BaselineRun) -> list[Row]:
    """Tokens/s with their ratio; times and scores with their difference. The values are those of
    the table of runs: the mean if a run was repeated."""
    rows: list[Row] = []
    for metric, (before, after) in _metrics([one, other]):
        if metric.name == "tokens_per_sec" and before and after:
            rows.append((metric.label, shown(before), shown(after), f"x {after / before:.3f}"))
        elif metric.unit == "ms" or metric.mode == "accuracy":
            rows += _difference(f"{metric.label}, {metric.unit}", before, after)
    return rows


def _difference(what: str, one: float | None, other: float | None) -> list[Row]:
    if one is None or other is None:
        return []
    return [(what, shown(one), shown(other), f"{other - one:+,.2f}")]


def comparison_table(found: Comparison) -> str:
    """The comparison as Markdown, without the answers."""
    lines = _listed(_OTHER_SAMPLES, found.other_samples)[1:]
    lines += [""] if lines else []
    lines.append("| " + " | ".join(found.header) + " |")
    lines.append("|---|---|" + "---:|" * (len(found.header) - 2))
    lines += ["| " + " | ".join(map(in_cell, cells)) + " |" for cells in found.rows]
    for pair in found.pairs:
        lines += ["", f"{pair.title}:", ""]
        lines.append("| " + " | ".join(["", *map(in_cell, pair.names), "difference"]) + " |")
        lines.append("|---|---:|---:|---:|")
        lines += ["| " + " | ".join(map(in_cell, row)) + " |" for row in pair.rows]
        said = [*pair.notes, *([pair.answers.words] if pair.answers else [])]
        lines += [line for words in said for line in ("", words)]
    lines += _listed("Not alike:", found.not_alike)
    return "\n".join([*lines, *_listed("Failed rules:", found.failed)])


def _listed(head: str, points: Sequence[str]) -> list[str]:
    return ["", head, *(f"- {in_cell(point)}" for point in points)] if points else []


def comparison_html(found: Comparison, runs: Sequence[BaselineRun]) -> str:
    """The comparison as a self-contained page, with plots and the answers that differ most."""
    names, plots = _bar_names(runs), []
    for metric, values in _metrics(runs):
        caption = f"{metric.label} of each run, {metric.unit}."
        draw = partial(_draw_bars, metric, names, values)
        plots.append(Plot(f"compare_{metric.name}", caption, draw))
    return render(
        "compare.html.j2",
        found=found,
        plots=drawn(plots),
        other_samples=_OTHER_SAMPLES,
        shown=shown,
    )


def _bar_names(runs: Sequence[BaselineRun]) -> list[str]:
    # A dollar sign would start a formula.
    return [f"{number}: {_name(run)}".replace("$", r"\$") for number, run in enumerate(runs, 1)]


def _draw_bars(
    metric: Metric, names: Sequence[str], values: Sequence[float | None], axes: Any, ink: str
) -> None:
    colours = [ORANGE, *[BLUE] * (len(names) - 1)]
    bars = axes.barh(names, [value or 0 for value in values], color=colours)
    axes.bar_label(bars, labels=[shown(value) for value in values], padding=3, color=ink)
    better = "more" if metric.higher_is_better else "less"
    label = metric.label.replace("$", r"\$")
    axes.set_title(f"{label} ({better} is better)", loc="left", fontsize=10)
    axes.set_xlabel(metric.unit, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.grid(visible=False, axis="y")


def plot_comparison(runs: Sequence[BaselineRun], path: Path) -> None:
    """Each metric of each run as bars, in the metric's unit. Raises OSError."""
    from matplotlib.figure import Figure

    metrics, names = _metrics(runs), _bar_names(runs)
    figure = Figure(
        figsize=(8, 0.9 + len(metrics) * (0.7 + 0.28 * len(runs))), layout="constrained"
    )
    axes = figure.subplots(max(len(metrics), 1), 1, squeeze=False)[:, 0]
    for axis, (metric, values) in zip(axes, metrics, strict=False):
        _draw_bars(metric, names, values, axis, "black")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
