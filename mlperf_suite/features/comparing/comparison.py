"""Compares several runs: what differs, in which figures, in which answers; in text, a page and a
plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
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
from mlperf_suite.reports.writing import ANSWERS_JSON, SAMPLES_JSON
from mlperf_suite.results.baseline import (
    AT_A_RATE,
    BaselineRun,
    answer_scores,
    differences_of_features,
    load_differences,
)
from mlperf_suite.results.comparability import SAMPLE_FACTS, Difference, differences, value_text
from mlperf_suite.results.regression import (
    Metric,
    feature_gates,
    metrics_of,
    modes_of,
    next_step,
    samples_of,
    score_of,
    underpowered_metrics,
)
from mlperf_suite.results.run_folder import read_object
from mlperf_suite.results.schema import RegressionFigures, Summary
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.verdict import in_words
from mlperf_suite.settings import OPTION_OF_FIELD

PLOT_FORMATS = (".png", ".svg", ".pdf")
"""File name extensions for a plot; each selects a format."""
_OTHER_SAMPLES = "These runs have different samples, so their figures do not compare the systems:"
_COST_NOTE = (
    "The difference is the cost of the network and the server's front end only if the server has "
    "the same engine, settings and hardware as the other run, which the suite cannot check."
)
_ANSWERS_NOTE = (
    "Only samples that both runs answered count. An answer differs where the model does, or from "
    "the first token where rounding (batches, kernels, precision) changed which was the likeliest; "
    "the scores say whether that matters."
)
_INTERVAL_NOTE = (
    "The line on a bar is the interval of its change against run 1; one that is too wide is left "
    "out."
)
_PLOT_WIDTH, _BAR_HEIGHT = 3.6, 0.42
"""Of a plot on the page and of each bar with its margin, in inches."""
_MAX_SPREAD = 4.0
"""The ratio of an interval's ends above which it hides that half was lost."""
_MAX_QUOTES = 10
_SHORT, _AROUND = 30, 8
"""Characters of a setting that is shown whole, and of what two longer ones have in common."""
_Row = tuple[str, str, str, str]
"""What is compared, its value in two runs, and the difference."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run beside the first. `settings`: in which the two differ. `others`: what else differs, in
    words. `regression`: its changes, without metrics if nothing was compared."""

    run: BaselineRun
    settings: tuple[Difference, ...]
    others: tuple[str, ...]
    regression: RegressionFigures


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs beside the first of them."""

    first: BaselineRun
    candidates: tuple[Candidate, ...]

    @property
    def runs(self) -> list[BaselineRun]:
        return [self.first, *(candidate.run for candidate in self.candidates)]


def comparison_of(runs: Sequence[BaselineRun], max_regression: float) -> Comparison:
    """Compare each run with the first. `max_regression`: the relative loss that still passes.

    All comparisons share the false alarms of a job alike: tables, files and the gate have the same
    interval of a run, whichever its place.
    """
    first, *rest = runs
    candidates = (
        Candidate(
            run,
            tuple(_setting_differences(first, run)),
            tuple(_other_differences(first, run)),
            _regression(first, run, max_regression, len(rest)),
        )
        for run in rest
    )
    return Comparison(first, tuple(candidates))


def comparison_sections(comparison: Comparison) -> list[Section]:
    """The runs, what differs in their settings, and how their figures compare with the first's.

    A run of another benchmark or scenario is listed with its figures only.
    """
    first, runs = comparison.first, comparison.runs
    of_each = list(enumerate(comparison.candidates, 2))
    sections = [Section("Comparison of runs", _every_run(runs), 1)]
    sections += [_what_differs(first, candidate, number) for number, candidate in of_each]
    answers = [_answer(first, candidate) for candidate in comparison.candidates]
    tables = [_metric_table(first, candidate, number) for number, candidate in of_each]
    sections += [
        Section("Result", [*answers, *tables]),
        *_plots(comparison),
        *_feature_sections(runs),
    ]
    for number, run in enumerate(runs[1:], 2):
        if first.kind == run.kind and run.summary.meta.scenario != CURVE:
            sections += _network_cost(first, run)
            title = f"Answers of run 1 and run {number}"
            sections.append(Section(title, _answer_blocks(first, run), 3))
    if failures := [line for run in runs for line in _failures(run)]:
        sections.append(Section("Failed rules", [Points(failures)]))
    return sections


def _every_run(runs: Sequence[BaselineRun]) -> list[Block]:
    """Each run with the number that its columns have."""
    evidence = [line for run in runs[1:] for line in _sample_differences(runs[0], run)]
    blocks: list[Block] = []
    if evidence:
        blocks = [Paragraph(_OTHER_SAMPLES, style="bad"), Points(evidence)]
    rows = [
        (str(number), _long_name(run), run.summary.meta.title, _status(run))
        for number, run in enumerate(runs, 1)
    ]
    table = Table(columns(["run", "name", "measured", "status"]), rows, style="wide")
    why = [f"{run.name}: {reason}" for run in runs if (reason := run.summary.meta.reason)]
    return [*blocks, table, *([Points(why)] if why else [])]


def _long_name(run: BaselineRun) -> str:
    """Its name with the folder, where that is another."""
    folder = run.folder.resolve().name if run.folder else run.name
    return run.name if folder == run.name else f"{run.name} ({folder})"


def _status(run: BaselineRun) -> str:
    return ", ".join(filter(None, [run.summary.meta.status, run.summary.no_result]))


# What differs


def _what_differs(first: BaselineRun, candidate: Candidate, number: int) -> Section:
    """The settings, and what else makes the runs no measurements of the same."""
    rows = [(d.name, *_differing_parts(d.first, d.second)) for d in candidate.settings]
    blocks: list[Block] = []
    if rows:
        blocks.append(Table(columns(["setting", "run 1", f"run {number}"]), rows, style="wide"))
    elif first.config and candidate.run.config:
        is_other = first.kind == candidate.run.kind and load_differences(
            first.summary, candidate.run.summary
        )
        end = "; the load is not:" if is_other else "."
        blocks.append(Paragraph(f"All recorded settings are the same{end}"))
    else:
        blocks.append(Paragraph("Not known: a run has no config.json.", style="open"))
    if candidate.others:
        blocks.append(Points(candidate.others))
    return Section(f"What differs between run 1 and run {number}", blocks)


def _setting_differences(first: BaselineRun, run: BaselineRun) -> list[Difference]:
    """Every fact in which two runs differ, also what the gate does not ask for: versions, cores."""
    both = first.config is not None and run.config is not None
    rows = [
        replace(difference, name=_setting_name(difference.name))
        for difference in differences(first.identity, run.identity, known_to_both=not both)
    ]
    rows += _only_of_one(first, run)
    performances = [side.summary.run.performance for side in (first, run)]
    repeats = [str(len(of.repeats) + 1) for of in performances if of]
    if len(set(repeats)) > 1:
        rows.append(Difference("--repeat", *repeats))
    return rows


def _only_of_one(first: BaselineRun, run: BaselineRun) -> list[Difference]:
    """What the server of one of two runs reports, or its user says, and not the other's."""
    engines = (side.config.engine if side.config else None for side in (first, run))
    before, after = (engine.server_settings if engine else {} for engine in engines)
    names = [name for name in before | after if (name in before) != (name in after)]
    return [
        Difference(
            f"server: {in_words(name)}",
            *(value_text(of[name]) if name in of else "not known" for of in (before, after)),
        )
        for name in names
    ]


def _setting_name(fact: str) -> str:
    """A fact's name as the user writes it: an option, or what the engine calls it."""
    option = OPTION_OF_FIELD.get(fact.removeprefix("setting "))
    if option and fact.startswith("setting "):
        return option.flag
    words = fact.replace("the engine's ", "engine: ").replace("the server's ", "server: ")
    return words.removeprefix("setting ")


def _differing_parts(first: str, second: str) -> tuple[str, str]:
    """Two texts without most of what long ones have in common at their beginnings and ends."""
    if max(len(first), len(second)) <= _SHORT:
        return first, second
    start = max(_alike(first, second) - _AROUND, 0)
    end = max(_alike(first[start:][::-1], second[start:][::-1]) - _AROUND, 0)
    ends = [len(text) - end for text in (first, second)]
    before, after = "…" if start else "", "…" if end else ""
    return f"{before}{first[start : ends[0]]}{after}", f"{before}{second[start : ends[1]]}{after}"


def _alike(first: str, second: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))


def _other_differences(first: BaselineRun, run: BaselineRun) -> list[str]:
    lines = []
    if first.kind == run.kind:
        lines += load_differences(first.summary, run.summary)
        lines += differences_of_features(first.summary, run.summary)
    if servers := [f"{side.name} ({urls})" for side in (first, run) if (urls := _urls(side))]:
        lines.append(
            f"hardware: not known for the servers of {' and '.join(servers)}; the machine in the "
            "results is the client's"
        )
    return lines


# The result


_ANSWERS: dict[str, tuple[str, Style]] = {
    "regressed": ("{} regressed against {}", "bad"),
    "cannot tell": ("Cannot tell whether {} lost against {}", "open"),
    "improved": ("{} improved on {}", "ok"),
    "unchanged": ("{} is unchanged from {}", "ok"),
}
"""By outcome, worst first: how a run with a metric of it stands to the first."""


def _answer(first: BaselineRun, candidate: Candidate) -> Paragraph:
    """How a run stands to the first, in a sentence: the metrics of its worst outcome."""
    regression, name, base = candidate.regression, candidate.run.name, first.name
    if not regression.metrics:
        why = regression.refused or "no metric that both have"
        return Paragraph(f"{name} was not compared with {base}: {why}.", style="open")
    sides = [side for side in (first, candidate.run) if side.summary.run.performance is None]
    without = f" No speed was compared: {sides[0].name} has none." if len(sides) == 1 else ""
    outcomes = {change.outcome for change in regression.metrics}
    outcome = next(of for of in _ANSWERS if of in outcomes)
    words, style = _ANSWERS[outcome]
    worst = [change for change in regression.metrics if change.outcome == outcome]
    changes = "; ".join(f"{change.label} {change.words}" for change in worst)
    if outcome == "cannot tell":
        changes += f" (next: {next_step(candidate.run.summary, worst)})"
    return Paragraph(f"{words.format(name, base)}: {changes}.{without}", style=style)


def _feature_sections(runs: Sequence[BaselineRun]) -> list[Section]:
    reports = feature_reports(*(run.summary for run in runs))
    return [section for report in reports for section in report.comparison(runs)]


def _metric_table(first: BaselineRun, candidate: Candidate, number: int) -> Table:
    """A row for each metric of either run, with its change."""
    regression, run = candidate.regression, candidate.run
    figures = {m.name: (m.label, m.unit, v) for m, v in _metrics([first, run])}
    figures |= {c.metric: (c.label, c.unit, [c.baseline, c.current]) for c in regression.metrics}
    rows = []
    for name, (label, unit, values) in figures.items():
        words, cells = named_values(label, unit, values)
        change = regression.of(name)
        last = (change.words, change.outcome) if change else ("", "not compared")
        rows.append((words, *cells, *last))
    performances = [side.summary.run.performance for side in (first, run)]
    goodputs = [of.goodput.samples_per_sec for of in performances if of and of.goodput]
    if len(goodputs) > 1:
        rows.append(("goodput, samples/s", *map(decimal, goodputs), "", "not compared"))
    numbers = ("run 1", f"run {number}")
    header = (
        *columns(["metric"], numbers),
        Column("change (interval)"),
        Column("verdict", "badge"),
    )
    return Table(header, rows, style="wide")


def _plots(comparison: Comparison) -> list[Section]:
    names = [f"run {number}" for number, _ in enumerate(comparison.runs, 1)]
    size = _PLOT_WIDTH, 1.0 + _BAR_HEIGHT * len(names)
    plots = [
        Plot(
            f"compare_{metric.name}",
            f"{metric.label} of each run.",
            partial(_draw, comparison, names, metric, values),
            size=size,
        )
        for metric, values in _metrics(comparison.runs)
    ]
    return [Section("Figures", [Plots(plots, note=_INTERVAL_NOTE)])] if plots else []


def _metrics(runs: Sequence[BaselineRun]) -> list[tuple[Metric, list[float | None]]]:
    """The metrics that at least one run has, with each run's value."""
    rows = []
    for metric in metrics_of(run.summary for run in runs):
        samples = [samples_of(metric, run.summary) for run in runs]
        if any(samples):
            rows.append((metric, [figures.value if figures else None for figures in samples]))
    return rows


def _regression(
    first: BaselineRun, run: BaselineRun, max_regression: float, comparisons: int
) -> RegressionFigures:
    """A run's changes against the first run; none for another benchmark or scenario."""
    if first.kind != run.kind:
        return RegressionFigures(refused="another benchmark or scenario")
    folder = run.folder or Path(run.label)
    return first.judge(
        *(run.summary, folder, max_regression), allow_different=True, comparisons=comparisons
    )


def gate_lines(
    comparison: Comparison, *, allow_different: bool = False, fails_unknown: bool = False
) -> list[str]:
    """The metrics in which a run lost against the first, or why no loss could show, a line each.

    `allow_different`: compare runs that differ in what was measured or how. `fails_unknown`: a loss
    that the noise could hide does not pass either.
    """
    failing = ("regressed", "cannot tell") if fails_unknown else ("regressed",)
    first = comparison.first
    lines = [f"{run.name}: {fault}" for run in comparison.runs for fault in run.faults]
    for candidate in comparison.candidates:
        run, regression = candidate.run, candidate.regression
        refusal = regression.refused
        if regression.different and not allow_different:
            refusal = refusal or first.refusal(regression.different)
        reasons = [refusal] if refusal else _losses(first, run, regression, failing)
        lines += [f"{run.name}: {reason}" for reason in reasons]
    return lines


def _losses(
    first: BaselineRun, run: BaselineRun, regression: RegressionFigures, failing: Sequence[str]
) -> list[str]:
    """What a comparison that was made did not let pass. `failing`: the outcomes that do not."""
    at_a_rate = run.summary.meta.scenario in AT_A_RATE
    lines = _figures_missing(first.summary, run.summary)
    if first.has_engine_facts and not run.has_engine_facts:
        lines.append("its engine is not known, but the baseline's is: config.json does not name it")
    lines += underpowered_metrics(regression.metrics, at_a_rate)
    return [*(c.line for c in regression.metrics if c.outcome in failing), *lines]


def _figures_missing(baseline: Summary, current: Summary) -> list[str]:
    """What was not compared because one side lacks it, in words: a mode of either, or, of a mode
    that both have, a figure that the baseline lacks (JSON's reader drops NaN)."""
    modes, own = modes_of(baseline), modes_of(current)
    missing = [f"no {mode} run, unlike the baseline" for mode in modes if mode not in own]
    missing += [f"the baseline has no {mode} run" for mode in own if mode not in modes]
    missing += [line for gate in feature_gates() for line in gate.missing(baseline, current)]
    for metric in metrics_of((baseline, current)):
        has_figure = metric.mode in modes and samples_of(metric, current) is not None
        if has_figure and samples_of(metric, baseline) is None:
            is_zero = score_of(metric, baseline)[0] == 0
            words = "the baseline's is 0" if is_zero else "the baseline has no such figure"
            missing.append(f"{metric.label}: {words}")
    return missing


# What is wrong


def _sample_differences(first: BaselineRun, run: BaselineRun) -> list[str]:
    """Evidence that two runs have different samples; facts missing in either are ignored."""
    return [
        f"{fact.name}: {first.name} {fact.first}, {run.name} {fact.second}"
        for fact in differences(first.identity, run.identity, known_to_both=True)
        if fact.name in SAMPLE_FACTS
    ]


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
            lines.append(Words(f"{run.name}: {verdict.rule}: {words}", required))
    return lines


# What the network costs


def _network_cost(first: BaselineRun, run: BaselineRun) -> list[Section]:
    """What a server adds to the times of an engine in the suite's process, which comes first."""
    before, after = (run, first) if _urls(first) and not _urls(run) else (first, run)
    is_cost = _urls(after) and not _urls(before)
    no_results = before.summary.no_result or after.summary.no_result
    if not is_cost or no_results or _sample_differences(before, after):
        return []
    header = columns(["metric"], [before.name, after.name, "difference"])
    table = Table(header, _figure_rows(before, after), style="wide")
    lines = [_COST_NOTE, *_client_note(after)]
    return [Section("What the network and the server's front end cost", [table, *notes(lines)])]


def _client_note(run: BaselineRun) -> list[str]:
    """The client's part of the difference; none for Offline, where requests do not wait for it."""
    remote = run.summary.run.remote.get("performance")
    if remote is None or run.summary.meta.scenario == "Offline":
        return []
    out, back = (time_cell(value) for value in (remote.client.out_ms, remote.client.back_ms))
    return [
        f"Of this, the suite's client added {out} before sending and {back} after receiving (p99)."
    ]


def _figure_rows(before: BaselineRun, after: BaselineRun) -> list[_Row]:
    """Tokens/s with their ratio; times and scores with their difference. The values are those of
    the table of metrics: the mean if a run was repeated."""
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
    words = f"{identical:,} of {len(pairs):,} answers are identical."
    blocks: list[Block] = [Paragraph(f"{words} {_ANSWERS_NOTE}")]
    if unequal:
        most = sorted(unequal, key=lambda pair: -pair.difference)[:_MAX_QUOTES]
        names = before.name, after.name
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
    comparison: Comparison,
    names: Sequence[str],
    metric: Metric,
    values: Sequence[float | None],
    axes: Any,
    ink: str,
) -> None:
    colours = [ORANGE, *[BLUE] * len(comparison.candidates)]
    reaches = [(nan, nan), *(_reach(candidate, metric) for candidate in comparison.candidates)]
    errors = {"xerr": list(zip(*reaches, strict=True)), "error_kw": {"ecolor": ink, "capsize": 4}}
    named = dict(zip(names, values, strict=True))
    draw_bars(named, metric.unit, axes, ink, color=colours, height=0.6, alpha=0.75, **errors)
    better = "higher" if metric.higher_is_better else "lower"
    axes.set_title(f"{metric.label} ({better} is better)", loc="left", fontsize=10)


def _reach(candidate: Candidate, metric: Metric) -> tuple[float, float]:
    """How far the interval of a run's change reaches below and above its figure; nan if there is
    none, or if it is too wide to draw beside the figures."""
    change = candidate.regression.of(metric.name)
    figures = (change.baseline, change.current, change.low, change.high) if change else (None,)
    known = [figure for figure in figures if figure is not None]
    if len(known) < len(figures) or not change:
        return nan, nan
    before, now, low, high = known
    worst, best = 1 + low, 1 + high
    if best > _MAX_SPREAD * worst:
        return nan, nan
    worst, best = (worst, best) if metric.higher_is_better else (1 / best, 1 / worst)
    return max(now - before * worst, 0.0), max(before * best - now, 0.0)


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Each metric of each run as bars, in the metric's unit. Raises OSError."""
    from matplotlib.figure import Figure

    runs = comparison.runs
    names, metrics = [f"{number}: {run.name}" for number, run in enumerate(runs, 1)], _metrics(runs)
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
        _draw(comparison, names, metric, values, axis, "black")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, dpi=120)
