"""Compares several runs in a Markdown table, an HTML page and a plot, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import CURVE
from mlperf_suite.reports.feature_report import feature_reports
from mlperf_suite.reports.performance_sections import named_values
from mlperf_suite.reports.plots import BLUE, ORANGE, draw_bars
from mlperf_suite.reports.sections import (
    Block,
    Column,
    Paragraph,
    Plot,
    Plots,
    Points,
    Quote,
    Quotes,
    Section,
    Style,
    Table,
    Words,
    columns,
    decimal,
    notes,
    save_figure,
    time_cell,
)
from mlperf_suite.results.baseline import (
    AT_A_RATE,
    BaselineRun,
    answer_scores,
    differences_of_features,
    load_differences,
)
from mlperf_suite.results.comparability import SAMPLE_FACTS, differences
from mlperf_suite.results.regression import (
    Metric,
    figures_missing,
    metrics_of,
    samples_of,
    underpowered_metrics,
)
from mlperf_suite.results.run_folder import read_object
from mlperf_suite.results.schema import RegressionFigures
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.verdict import in_words

PLOT_FORMATS = (".png", ".svg", ".pdf")
"""File name extensions for a plot; each selects a format."""
ANSWERS_JSON, SAMPLES_JSON = "answers.json", "samples.json"
"""In an accuracy run's folder: the text of every answer, and a few answers with input and
reference."""
_OTHER_SAMPLES = "These runs have different samples, so their figures do not compare the systems:"
_COST_NOTE = (
    "The difference is the cost of the network and the server's front end only if the server has "
    "the same engine, settings and hardware as the other run, which the suite cannot check."
)
_MAX_QUOTES = 10
_Row = tuple[str, str, str, str]
"""What is compared, its value in two runs, and the difference."""


def comparison_sections(runs: Sequence[BaselineRun], max_regression: float) -> list[Section]:
    """Each run's figures, and how they compare with the first run's.

    `max_regression`: the relative loss that still passes. A run of another benchmark or scenario
    is listed with its figures only.
    """
    first, rest = runs[0], runs[1:]
    evidence = [line for run in rest for line in _sample_differences(first, run)]
    blocks: list[Block] = []
    if evidence:
        blocks = [Paragraph(_OTHER_SAMPLES, style="bad"), Points(evidence)]
    blocks += [_answer(first, run, max_regression) for run in rest]
    sections = [Section("Comparison of runs", blocks, 1), _every_run(runs, max_regression)]
    sections += _feature_sections(runs)
    for run in rest:
        if first.kind == run.kind and run.summary.meta.scenario != CURVE:
            sections += _side_by_side(first, run)
    if lines := [line for run in runs for line in _differences(first, run, max_regression)]:
        sections.append(Section("Differences", [Points(lines)]))
    if failures := [line for run in runs for line in _failures(run)]:
        sections.append(Section("Failed rules", [Points(failures)]))
    return sections


_ANSWERS: dict[str, tuple[str, Style]] = {
    "regressed": ("regressed against", "bad"),
    "cannot tell": ("cannot be told from", "open"),
    "improved": ("improved on", "ok"),
    "unchanged": ("is unchanged from", "ok"),
}
"""By outcome, worst first: how a run with a metric of it stands to the first."""


def _answer(first: BaselineRun, run: BaselineRun, max_regression: float) -> Paragraph:
    """How a run stands to the first, in a sentence: the metrics of its worst outcome."""
    regression = _regression(first, run, max_regression)
    name, base = run_name(run), run_name(first)
    if not regression.metrics:
        why = regression.refused or "another benchmark or scenario"
        return Paragraph(f"{name} was not compared with {base}: {why}.", style="open")
    outcomes = {change.outcome for change in regression.metrics}
    outcome = next(of for of in _ANSWERS if of in outcomes)
    words, style = _ANSWERS[outcome]
    changes = "; ".join(f"{c.label} {c.words}" for c in regression.metrics if c.outcome == outcome)
    return Paragraph(f"{name} {words} {base}: {changes}.", style=style)


def run_name(run: BaselineRun) -> str:
    return run.folder.resolve().name if run.folder else Path(run.label).name


def _feature_sections(runs: Sequence[BaselineRun]) -> list[Section]:
    reports = feature_reports(*(run.summary for run in runs))
    return [section for report in reports for section in report.comparison(runs)]


def _every_run(runs: Sequence[BaselineRun], max_regression: float) -> Section:
    first, metrics = runs[0], _metrics(runs)
    figures = [named_values(m.label, m.unit, values) for m, values in metrics]
    rows = []
    for number, run in enumerate(runs):
        cells = [run_name(run), _status(run)]
        regression = _regression(first, run, max_regression) if number else RegressionFigures()
        for (metric, _), (_, values) in zip(metrics, figures, strict=True):
            change = regression.of(metric.name)
            words = f", {change.words} {change.outcome}" if change else ""
            cells.append(f"{values[number]}{words}")
        rows.append(cells)
        shown = {metric.name for metric, _ in metrics}
        for change in regression.metrics:
            if change.metric not in shown:
                cells[1] += f", {change.label} {change.words} {change.outcome}"
    table = Table(columns(["run", "status", *(name for name, _ in figures)]), rows, style="wide")
    note = notes(["The others are compared with the first run."])
    plots = [
        Plot(
            f"compare_{metric.name}",
            f"{metric.label} of each run, {metric.unit}.",
            partial(_draw, runs, metric, values),
        )
        for metric, values in metrics
    ]
    return Section("Every run", [*note, table, *([Plots(plots)] if plots else [])])


def _metrics(runs: Sequence[BaselineRun]) -> list[tuple[Metric, list[float | None]]]:
    """The metrics that at least one run has, with each run's value."""
    rows = []
    for metric in metrics_of(run.summary for run in runs):
        samples = [samples_of(metric, run.summary) for run in runs]
        if any(samples):
            rows.append((metric, [figures.value if figures else None for figures in samples]))
    return rows


def _status(run: BaselineRun) -> str:
    meta = run.summary.meta
    words = ", ".join(filter(None, [meta.status, run.summary.no_result]))
    return f"{words}: {meta.reason}" if meta.reason else words


def _regression(first: BaselineRun, run: BaselineRun, max_regression: float) -> RegressionFigures:
    """A run's changes against the first run; none for another benchmark or scenario."""
    if first.kind != run.kind:
        return RegressionFigures()
    folder = run.folder or Path(run.label)
    return first.judge(run.summary, folder, max_regression, allow_different=True)


def gate_lines(
    runs: Sequence[BaselineRun], max_regression: float, *, allow_different: bool = False
) -> list[str]:
    """The metrics in which a run lost against the first, or why no loss could show, a line each.

    `max_regression`: the relative loss that still passes; a loss within the noise passes too.
    `allow_different`: compare runs that differ in what was measured or how.
    """
    first, *rest = runs
    lines = [f"{run_name(run)}: {fault}" for run in runs for fault in run.faults]
    for run in rest:
        folder = run.folder or Path(run.label)
        regression = first.judge(
            *(run.summary, folder, max_regression),
            allow_different=allow_different,
            comparisons=len(rest),
        )
        reasons = [regression.refused] if regression.refused else _losses(first, run, regression)
        lines += [f"{run_name(run)}: {reason}" for reason in reasons]
    return lines


def _losses(first: BaselineRun, run: BaselineRun, regression: RegressionFigures) -> list[str]:
    """What a comparison that was made did not let pass."""
    at_a_rate = run.summary.meta.scenario in AT_A_RATE
    lines = figures_missing(first.summary, run.summary)
    if first.has_engine_facts and not run.has_engine_facts:
        lines.append("its engine is not known, but the baseline's is: config.json does not name it")
    lines += underpowered_metrics(regression.metrics, at_a_rate)
    return [*(c.line for c in regression.metrics if c.outcome == "regressed"), *lines]


# What is not alike


def _sample_differences(first: BaselineRun, run: BaselineRun) -> list[str]:
    """Evidence that two runs have different samples; facts missing in either are ignored."""
    return [
        f"{fact.name}: {run_name(first)} {fact.first}, {run_name(run)} {fact.second}"
        for fact in differences(first.identity, run.identity, known_to_both=True)
        if fact.name in SAMPLE_FACTS
    ]


def _differences(first: BaselineRun, run: BaselineRun, max_regression: float) -> list[str]:
    lines = first.differences(run.identity, (run_name(first), run_name(run)))
    if run is not first and first.kind == run.kind:
        lines += load_differences(first.summary, run.summary)
        lines += differences_of_features(first.summary, run.summary)
    if urls := _urls(run):
        lines.append(
            f"hardware: not known for the servers of {run_name(run)} ({urls}); the machine in its "
            "results is the client's"
        )
    return lines


def _urls(run: BaselineRun) -> str:
    """The servers of a run, empty if its engine was in the suite's own process."""
    remote = run.summary.run.remote.values()
    return ", ".join(dict.fromkeys(in_words(e.url) for side in remote for e in side.endpoints))


def _failures(run: BaselineRun) -> list[Words]:
    """Each rule that failed, with what it demands."""
    lines = []
    for verdict in run.summary.verdicts:
        if verdict.status == "failed":
            why = f" ({verdict.why})" if verdict.why else ""
            words = f"found {verdict.found}, required {verdict.required}{why}"
            rule = rule_named(verdict.rule)
            required = (f"({rule.sentence})",) if rule else ()
            lines.append(Words(f"{run_name(run)}: {verdict.rule}: {words}", required))
    return lines


# Two runs side by side


def _side_by_side(first: BaselineRun, run: BaselineRun) -> list[Section]:
    """Compare two runs; if only one has its engine in the suite's process, it comes first."""
    pair = (run, first) if _urls(first) and not _urls(run) else (first, run)
    before, after = pair
    lines = [f"{run_name(r)} is {r.summary.no_result}." for r in pair if r.summary.no_result]
    title = "Side by side"
    same_samples = not _sample_differences(before, after)
    if _urls(after) and not _urls(before) and not lines and same_samples:
        title = "What the network and the server's front end cost"
        lines = [_COST_NOTE, *_client_note(after)]
    header = (Column(kind="soft"), *columns([run_name(before), run_name(after), "difference"]))
    rows = [*_word_rows(before, after), *_figure_rows(before, after)]
    table = Table(header, rows, style="wide")
    return [
        Section(title, [table, *notes(lines)]),
        Section("Answers", _answer_blocks(before, after), 3),
    ]


def _client_note(run: BaselineRun) -> list[str]:
    """The client's part of the difference; none for Offline, where requests do not wait for it."""
    remote = run.summary.run.remote.get("performance")
    if remote is None or run.summary.meta.scenario == "Offline":
        return []
    out, back = (time_cell(value) for value in (remote.client.out_ms, remote.client.back_ms))
    return [
        f"Of this, the suite's client added {out} before sending and {back} after receiving (p99)."
    ]


def _word_rows(before: BaselineRun, after: BaselineRun) -> list[_Row]:
    pair = before, after
    engines = [run.config.engine if run.config else None for run in pair]
    words = {
        "engine": [f"{engine.name} {engine.version}" if engine else "" for engine in engines],
        "where": [_urls(run) or "in the suite's process" for run in pair],
        "label": [run.summary.meta.label or "" for run in pair],
    }
    return [(name, old, new, "") for name, (old, new) in words.items() if old or new]


def _figure_rows(before: BaselineRun, after: BaselineRun) -> list[_Row]:
    """Tokens/s with their ratio; times and scores with their difference. The values are those of
    the table of runs: the mean if a run was repeated."""
    rows: list[_Row] = []
    for metric, (old, new) in _metrics([before, after]):
        if old is None or new is None:
            continue
        name, (before_words, after_words, difference) = named_values(
            metric.label, metric.unit, (old, new, new - old)
        )
        values = before_words, after_words
        if metric.name == "tokens_per_sec" and old and new:
            rows.append((metric.label, *values, f"x {new / old:.3f}"))
        elif metric.unit == "ms" or metric.mode == "accuracy":
            rows.append((name, *values, difference if new < old else f"+{difference}"))
    return rows


# Answers


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two answers to one sample, and the score of each in percent, None if not known.

    `index`: the sample's index in the QSL.
    """

    index: int
    answers: tuple[str, str]
    scores: tuple[float, float] | None

    @property
    def difference(self) -> float:
        """The difference of the scores, in percentage points; 0 if they are not known."""
        return abs(self.scores[1] - self.scores[0]) if self.scores else 0.0


def _answer_blocks(before: BaselineRun, after: BaselineRun) -> list[Block]:
    """How many answers are identical, and those whose score differs most."""
    same_data = before.summary.meta.dataset == after.summary.meta.dataset
    metric, pairs = "", list[AnswerPair]()
    if before.folder and after.folder and same_data:
        metric, pairs = _answer_pairs(before.folder, after.folder)
    if not pairs:
        return [Paragraph("The two runs kept no answers to the same samples.")]
    unequal = [pair for pair in pairs if pair.answers[0] != pair.answers[1]]
    identical = len(pairs) - len(unequal)
    blocks: list[Block] = [Paragraph(f"{identical:,} of {len(pairs):,} answers are identical.")]
    if unequal:
        most = sorted(unequal, key=lambda pair: -pair.difference)[:_MAX_QUOTES]
        names = run_name(before), run_name(after)
        title = "Some answers that differ."
        if metric:
            title = f"The answers whose {metric} differs most, as the engines returned them."
        blocks.append(Quotes([_quote(pair, metric, names) for pair in most], title, beside=True))
    return blocks


def _quote(pair: AnswerPair, metric: str, names: tuple[str, str]) -> Quote:
    title = f"Sample {pair.index}"
    if pair.scores:
        title += f": {metric} {decimal(pair.scores[0])} and {decimal(pair.scores[1])}"
    return Quote(title, list(zip(names, pair.answers, strict=True)))


def _answer_pairs(before: Path, after: Path) -> tuple[str, list[AnswerPair]]:
    """The score's name, empty if none is known, and the answers to the same samples; none if the
    runs are of different data. Older suites kept only the first three answers."""
    (data, scores), (new_data, new_scores) = answer_scores(before), answer_scores(after)
    if data != new_data:
        return "", []
    texts, new_texts = _answers(before), _answers(after)
    metric = next((name for name in scores if name in new_scores), "")
    pairs = []
    for index in [index for index in texts if index in new_texts]:
        (place, answer), (new_place, new_answer) = texts[index], new_texts[index]
        old = scores.get(metric, {}).get(place)
        new = new_scores.get(metric, {}).get(new_place)
        both_scores = None if old is None or new is None else (old, new)
        pairs.append(AnswerPair(index, (answer, new_answer), both_scores))
    return metric, pairs


def _answers(folder: Path) -> dict[int, tuple[int, str]]:
    """By the sample's index, the answer's position in the data's order and its text."""
    accuracy = folder / "Accuracy"
    entries = (read_object(accuracy / ANSWERS_JSON) or {}).get("answers")
    if not isinstance(entries, list):
        entries = (read_object(accuracy / SAMPLES_JSON) or {}).get("samples")
    answers = {}
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and type(entry.get("index")) is int:
            answers[entry["index"]] = (place, str(entry.get("answer", "")))
    return answers


# The plot


def _draw(
    runs: Sequence[BaselineRun], metric: Metric, values: Sequence[float | None], axes: Any, ink: str
) -> None:
    names = [f"{number}: {run_name(run)}" for number, run in enumerate(runs, 1)]
    colours = [ORANGE, *[BLUE] * (len(runs) - 1)]
    draw_bars(dict(zip(names, values, strict=True)), colours, metric.unit, axes, ink)
    better = "higher" if metric.higher_is_better else "lower"
    axes.set_title(f"{metric.label} ({better} is better)", loc="left", fontsize=10)


def plot_comparison(runs: Sequence[BaselineRun], path: Path) -> None:
    """Each metric of each run as bars, in the metric's unit. Raises OSError."""
    from matplotlib.figure import Figure

    metrics = _metrics(runs)
    blocks = [block for section in _feature_sections(runs) for block in section.blocks]
    plots = [plot for block in blocks if isinstance(block, Plots) for plot in block.plots]
    heights = [height for plot in plots for height in [3.2] + [2.0] * (plot.panels - 1)]
    heights += [0.7 + 0.28 * len(runs)] * len(metrics)
    figure = Figure(figsize=(8, 0.9 + sum(heights)), layout="constrained")
    rows = max(len(heights), 1)
    axes = figure.subplots(rows, 1, squeeze=False, height_ratios=heights or None)[:, 0]
    drawn = 0
    for plot in plots:
        panels = axes[drawn : drawn + plot.panels]
        for panel in panels[:-1]:
            panel.sharex(panels[-1])
        plot.draw(panels if plot.panels > 1 else panels[0], "black")
        drawn += plot.panels
    for axis, (metric, values) in zip(axes[drawn:], metrics, strict=False):
        _draw(runs, metric, values, axis, "black")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, dpi=120)
