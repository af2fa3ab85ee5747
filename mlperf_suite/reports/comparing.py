"""Several runs beside each other: a table in Markdown, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlperf_suite.reports.markdown import in_cell
from mlperf_suite.reports.plots import BLUE, ORANGE
from mlperf_suite.reports.view import shown
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.regression import Metric, differences, metrics_of, samples_of

PLOT_FORMATS = (".png", ".svg", ".pdf")
"""The endings of a plot's file; each names its format."""


def _name(run: BaselineRun) -> str:
    return run.folder.resolve().name if run.folder else Path(run.named).name


def _metrics(runs: Sequence[BaselineRun]) -> list[tuple[Metric, list[float | None]]]:
    """The metrics that any of the runs has, with each run's value."""
    found = []
    for metric in metrics_of(run.summary for run in runs):
        samples = [samples_of(metric, run.summary) for run in runs]
        if any(samples):
            found.append((metric, [one.value if one else None for one in samples]))
    return found


def _status(run: BaselineRun) -> str:
    meta = run.summary.meta
    return f"{meta.status}: {meta.reason}" if meta.reason else meta.status


def _failed_rules(run: BaselineRun) -> list[str]:
    lines = []
    for rule in run.summary.verdicts:
        if rule.status == "failed":
            why = f" ({rule.why})" if rule.why else ""
            found = f"found {rule.found}, required {rule.required}{why}"
            lines.append(in_cell(f"{_name(run)}: {rule.rule}: {found}"))
    return lines


def comparison_table(runs: Sequence[BaselineRun], max_regression: float) -> str:
    """Each run's figures, and what became of each against the first run's.

    What makes a run incomparable with the first stands below, and which rules failed. A run of
    another benchmark or scenario has its figures alone.
    """
    header = ["run", "status", *(f"{metric.label}, {metric.unit}" for metric, _ in _metrics(runs))]
    header = [name.replace("tokens/s, tokens/s", "tokens/s") for name in header]
    lines = ["| " + " | ".join(header) + " |", "|---|---|" + "---:|" * (len(header) - 2)]
    notes: list[str] = []
    failed: list[str] = []
    for number, run in enumerate(runs):
        cells = [in_cell(_name(run)), in_cell(_status(run))]
        changes = {} if number == 0 else _changes(runs[0], run, max_regression)
        for metric, values in _metrics(runs):
            change = changes.get(metric.name)
            cells.append(shown(values[number]) + (f", {change}" if change else ""))
        lines.append("| " + " | ".join(cells) + " |")
        first = runs[0]
        for difference in differences(first.summary, run.summary, first.config, run.config):
            other = difference.replace("baseline ", f"{_name(runs[0])} ").replace(
                "this run ", f"{_name(run)} "
            )
            notes.append(other)
        failed += _failed_rules(run)
    return "\n".join([*lines, *_listed("Not alike:", notes), *_listed("Failed rules:", failed)])


def _listed(head: str, points: Sequence[str]) -> list[str]:
    return ["", head, *(f"- {point}" for point in points)] if points else []


def _changes(first: BaselineRun, run: BaselineRun, max_regression: float) -> dict[str, str]:
    if first.kind != run.kind:
        return {}
    folder = run.folder or Path(run.named)
    judged = first.judge(run.summary, folder, max_regression, allow_different=True)
    return {one.metric: f"{one.words} {one.outcome}" for one in judged.metrics}


def plot_comparison(runs: Sequence[BaselineRun], path: Path) -> None:
    """Each metric of each run as bars, in the metric's unit. Raises OSError."""
    from matplotlib.figure import Figure

    metrics = _metrics(runs)
    figure = Figure(
        figsize=(8, 0.9 + len(metrics) * (0.7 + 0.28 * len(runs))), layout="constrained"
    )
    axes = figure.subplots(max(len(metrics), 1), 1, squeeze=False)[:, 0]
    for axis, (metric, values) in zip(axes, metrics, strict=False):
        names = [f"{number + 1}: {_name(run)}" for number, run in enumerate(runs)]
        colours = [ORANGE, *[BLUE] * (len(runs) - 1)]
        bars = axis.barh(names, [value or 0 for value in values], color=colours)
        axis.bar_label(bars, labels=[shown(value) for value in values], padding=3)
        better = "more" if metric.higher_is_better else "less"
        axis.set_title(f"{metric.label} ({better} is better)", loc="left", fontsize=10)
        axis.set_xlabel(metric.unit, fontsize=9)
        axis.invert_yaxis()
        axis.margins(x=0.18)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
