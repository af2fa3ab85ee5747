"""What the terminal says of a result at the end of a session: the answer, the figures and the rules
that did not pass, on one screen of 24 lines and 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.reports.feature_report import feature_reports
from mlperf_suite.reports.headline import findings, rule_counts, worst_status
from mlperf_suite.reports.performance_sections import (
    RATES,
    early_estimates,
    early_lines,
    goodput_words,
    repeats_words,
    reported_times,
    times_words,
)
from mlperf_suite.reports.sections import Line
from mlperf_suite.results.schema import (
    AccuracyFigures,
    Percentiles,
    PerformanceFigures,
    RegressionFigures,
    ScoreFigures,
    Summary,
)
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.verdict import Status, Verdict, in_words, with_status

COLUMNS = 80
_LINES = 20
"""A screen's lines without the heading, pytest's last lines and the prompt."""
_MIN_RULE_LINES = 4
"""What rules that are worse than shortened get, however many lines the figures take."""
_MIN_FIGURE_LINES, _MIN_GATED_LINES = 12, 6
"""What figures get, however many lines the rest takes: speed and times, with their limits; the
second beside the gate's changes, which are always there."""
LABEL, _RULE, _FOUND = 10, 32, 20
"""Widths of the labels and of the columns of the rules that did not pass."""
_HEADS: dict[Status, tuple[str, str, str]] = {
    "failed": ("rule FAILED", "required", "bad"),
    "not judged": ("not judged", "required", "open"),
    "shortened": ("shortened in smoke", "MLPerf requires", "open"),
}
"""By status, worst first: the heads of two columns, and the style of a row."""


def closing_lines(summary: Summary, folder: Path) -> list[Line]:
    """A result on one screen: figures that it has no room for are in the report alone."""
    answer, figures = list(_folded(_answer(summary))), list(_folded(_figures(summary)))
    # Not folded: a path is to be copied.
    end = list(_end(summary, folder))
    changes = list(_folded(_changes(summary.regression) if summary.regression else ()))
    least = 0 if worst_status(summary.verdicts) == "shortened" else _MIN_RULE_LINES
    room = _LINES - len(answer) - len(changes) - len(end)
    most = max(
        room - len(_rules(summary.verdicts, least)),
        _MIN_GATED_LINES if changes else _MIN_FIGURE_LINES,
    )
    if more := max(len(figures) - most, 0):
        figures[most - 1 :] = [Line("", f"{more + 1} more lines of figures are in the report")]
    rules = _rules(summary.verdicts, max(room - len(figures), least))
    return [*answer, *figures, *changes, *rules, *end]


def _answer(summary: Summary) -> Iterator[Line]:
    for finding in findings(summary):
        yield Line(None, f"{finding.lead} {finding.text}".strip(), style=finding.style)
    if summary.meta.not_submittable:
        words = f"cannot be submitted: {summary.meta.not_submittable}"
        yield Line(None, words, style="open")


def rules_line(mode: str, verdicts: Iterable[Verdict]) -> list[Line]:
    """How many rules of a mode passed; no line if it has none."""
    own = [v for v in verdicts if v.rule.startswith(f"{mode}_")]
    return [Line(mode.upper(), rule_counts(own), worst_status(own))] if own else []


# The figures


def _figures(summary: Summary) -> Iterator[Line]:
    run = summary.run
    unknown = ", the server's hardware is not known" if run.remote else ""
    yield Line("measured", summary.measured + unknown)
    if summary.meta.node_name:
        yield Line("node", summary.meta.node_name)
    if run.performance:
        yield from _speed(run.performance, {v.rule: v for v in summary.verdicts})
    if run.accuracy:
        yield from _accuracy(run.accuracy)
    for mode in AUDIT_MODES:
        yield from rules_line(mode, summary.verdicts)
    for report in feature_reports(summary):
        yield from report.closing(summary)


def _speed(performance: PerformanceFigures, verdicts: Mapping[str, Verdict]) -> Iterator[Line]:
    rates = ((performance.mean(name), rate) for rate, name in RATES)
    words = ", ".join(f"{value:,.2f} {rate}" for value, rate in rates if value is not None)
    answers = {True: "LoadGen: VALID", False: "LoadGen: INVALID", None: ""}
    yield Line("speed", words, answers[performance.valid])
    if words := repeats_words(performance):
        yield Line("", words)
    if performance.invalid_reason:
        yield Line("", performance.invalid_reason, style="bad")
    estimate_name, estimates = early_estimates(performance)
    for name, times in reported_times(performance):
        shown_times: Percentiles = {
            key: times[key] for key in ("p50", "p90", "p99") if key in times
        } or times
        if name in estimates:
            shown_times |= {estimate_name: estimates[name]}
        rule = f"{name.lower()}_limit"
        limit = verdicts.get(rule) or verdicts.get(f"client_{rule}")
        required = f"; p99 {limit.required}" if limit else ""
        yield Line(name, times_words(shown_times) + required, limit.status if limit else "")
    if performance.goodput:
        yield Line("goodput", goodput_words(performance.goodput))
    # What is said of a success is no news.
    says = (line for line in early_lines(performance) if not line.endswith("Run successful."))
    yield from _labelled("", says)


def _accuracy(accuracy: AccuracyFigures) -> Iterator[Line]:
    words = [_score(score) for score in accuracy.scores]
    texts = [", ".join(words[i : i + 2]) for i in range(0, len(words), 2)]
    *lines, last = _labelled("accuracy", texts or ["no score"])
    yield from lines
    status = {True: "passed", False: "failed", None: "not judged"}[accuracy.passed]
    yield replace(last, status=status)


def _score(score: ScoreFigures) -> str:
    """A quality with two decimals, a length whole; a rule that failed has all digits."""
    digits = 2 if score.is_percentage else 0
    bounds = (("min", score.low), ("max", score.high))
    limits = [f"{word} {value:,.{digits}f}" for word, value in bounds if value is not None]
    value = f"{score.value:,.{digits}f}"
    words = f"{score.name} {value}" if score.is_percentage else f"{value} {score.unit}"
    return f"{words} ({', '.join(limits)})" if limits else words


def _changes(regression: RegressionFigures) -> Iterator[Line]:
    """The gate: each metric's change since the baseline."""
    name = regression.baseline or "?"
    if regression.refused:
        yield Line("against", f"{name}: {regression.refused}", "not compared")
        return
    yield Line("against", name)
    for change in regression.metrics:
        words = f"{change.label} {change.words}, noise from {change.noise_from}"
        if change.outcome != "unchanged":
            yield Line("", words, change.outcome)
    if rest := [c.label for c in regression.metrics if c.outcome == "unchanged"]:
        yield Line("", ", ".join(rest), "unchanged")
    yield from (Line("", note, style="open") for note in regression.different)


def _labelled(label: str, texts: Iterable[str]) -> Iterator[Line]:
    for number, text in enumerate(texts):
        yield Line("" if number else label, text)


# The rules that did not pass


def _rules(verdicts: Sequence[Verdict], room: int) -> list[Line]:
    """The rules that did not pass in about `room` lines; those for which it is not enough are named
    alone."""
    lines: list[Line] = []
    for status, (head, required, style) in _HEADS.items():
        waiting = with_status(verdicts, status)
        table = [Line(None, _row(head, "found", required), style="head")]
        while waiting:
            space = room - len(lines) - len(table) - (2 if len(waiting) > 1 else 0)
            if space < 1:
                room = 0
                break
            block = _block(waiting[0], style)
            # Its row alone comes before that of a milder rule.
            table += block if len(block) <= space else block[:1]
            waiting = waiting[1:]
        lines += table if len(table) > 1 else []
        if waiting:
            more = "more " if len(table) > 1 else ""
            names = ", ".join(verdict.rule for verdict in waiting)
            heads = head.replace("rule ", "rules ") if len(waiting) > 1 else head
            lines += _folded([Line(None, f"{len(waiting)} {more}{heads}: {names}", style=style)])
    return lines


def _block(verdict: Verdict, style: str) -> list[Line]:
    """A row. Below it why a rule was not judged; or the sentence, the source and the usual fix of
    one that failed."""
    row = Line(None, _row(f"  {verdict.rule}", verdict.found, verdict.required), style=style)
    rule = rule_named(verdict.rule)
    parts = [] if verdict.status == "shortened" else [verdict.why]
    if verdict.status == "failed" and rule:
        parts += [f"{rule.sentence} ({rule.attribution})", f"Usual fix: {rule.fix}"]
    margin = " " * 4
    fold = textwrap.TextWrapper(COLUMNS, initial_indent=margin, subsequent_indent=margin)
    return [row, *(Line(None, line) for part in parts for line in fold.wrap(in_words(part)))]


def _row(rule: str, value: str, required: str) -> str:
    widths = (_RULE, _FOUND, COLUMNS - _RULE - _FOUND - 2)
    cells = zip((rule, in_words(value), in_words(required)), widths, strict=True)
    fitted = ((c if len(c) <= width else f"{c[: width - 1]}…", width) for c, width in cells)
    return " ".join(f"{cell:{width}}" for cell, width in fitted).rstrip()


# The end


def _end(summary: Summary, folder: Path) -> Iterator[Line]:
    meta, is_smoke = summary.meta, summary.meta.profile == "smoke"
    folder = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    yield Line("report", str(folder / "report.html"))
    if not (is_smoke or summary.regressed):
        return
    is_ours = meta.model == "embedded" and not summary.run.remote
    own = ["--model FOLDER measures yours"] if is_ours else []
    steps = [step for of in feature_reports(summary) for step in of.next_steps(summary, folder)]
    # What a regression asks for comes before everything else.
    steps = [*steps, *own] if summary.regressed else [*own, *steps]
    steps += ["--profile official: MLPerf's own rules"] if is_smoke else []
    yield from _folded([Line("next", "; ".join(steps))] if steps else [])


# Lines


def _folded(lines: Iterable[Line]) -> Iterator[Line]:
    """Each line, in several if it is too long; its status ends the last."""
    for line in lines:
        width = COLUMNS - (0 if line.label is None else LABEL)
        status = f"  {line.status}" if line.status else ""
        parts = textwrap.wrap(in_words(line.text), width, break_on_hyphens=False) or [""]
        if len(parts[-1]) + len(status) > width:
            parts[-1:] = textwrap.wrap(parts[-1], width - len(status), break_on_hyphens=False)
        for number, part in enumerate(parts, 1):
            label = line.label if number == 1 or line.label is None else ""
            is_last = number == len(parts)
            yield replace(line, label=label, text=part, status=line.status if is_last else "")
