"""Renders the closing tables in the terminal; they fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.judging.judge import Judged
from mlperf_suite.reports.energy import energy_lines
from mlperf_suite.reports.replicas import replica_lines
from mlperf_suite.reports.view import (
    early_stopping_estimates,
    early_stopping_lines,
    named_times,
    peak_line,
    score_value,
    shown,
)
from mlperf_suite.results.schema import (
    MmluFigures,
    PerformanceFigures,
    ProfileFigures,
    RegressionFigures,
    Run,
    Summary,
)
from mlperf_suite.rules.verdict import Verdict, in_words

_COLOURS = {
    "passed": "green",
    "failed": "bold red",
    "shortened": "yellow",
    "not judged": "yellow",
    "complete": "green",
    "invalid": "bold red",
    "running": "yellow",
    "regressed": "bold red",
    "improved": "green",
    "cannot tell": "yellow",
}


def closing_table(summary: Summary, folder: Path) -> RenderableType:
    """A run's summary as a terminal table."""
    meta, status = summary.meta, summary.meta.status
    parts: list[RenderableType] = [
        Text.assemble((meta.label or "", "bold"), ", ", (status, _COLOURS.get(status, ""))),
        Text(f"{meta.benchmark}, model {meta.model}, data {meta.dataset}, round {meta.round}"),
    ]
    if meta.node_name:
        parts.append(Text(f"node {in_words(meta.node_name)}"))
    if meta.reason:
        parts.append(Text(f"failed: {meta.reason}", "bold red"))
    parts += [Text(line) for line in (*_figures(summary.run), *_remote(summary.run.remote))]
    parts += [Text(line) for line in replica_lines(summary.run.replicas, summary.run.scaling)]
    parts += [Text(line) for line in _profile(summary.run.profile)]
    if summary.peak:
        parts.append(Text(peak_line(summary.peak), "bold"))
    if summary.verdicts:
        parts.append(_rules(summary.verdicts))
    if summary.regression:
        parts.append(_regression(summary.regression))
    shortened = [v.rule for v in summary.verdicts if v.status == "shortened"]
    if shortened:
        parts.append(Text("MLPerf rules shortened in smoke: " + ", ".join(shortened), "yellow"))
    parts.append(Text(f"report: {folder / 'report.md'}"))
    return Group(*parts)


def times_line(name: str, values_ms: Mapping[str, float]) -> str:
    """Times in one line, in ms, or in s if long; six percentiles fit 80 columns."""
    if max(values_ms.values()) >= 10_000:
        unit, shown = "s", [f"{key} {value / 1000:,.4g}" for key, value in values_ms.items()]
    else:
        digits = 0 if max(values_ms.values()) >= 1000 else 1
        unit, shown = "ms", [f"{key} {value:,.{digits}f}" for key, value in values_ms.items()]
    return f"{name} {unit}: {', '.join(shown)}"


def _figures(run: Run) -> list[str]:
    lines = []
    if run.performance:
        lines += [*_performance(run.performance), *energy_lines(run)]
    if run.accuracy:
        scores = [f"{s.name} {score_value(s)}" for s in run.accuracy.scores if s.is_percentage]
        rest = [f"{score_value(s)} {s.unit}" for s in run.accuracy.scores if not s.is_percentage]
        lines += filter(None, (", ".join(scores), ", ".join(rest)))
    return lines + (_mmlu(run.mmlu) if run.mmlu else [])


def _performance(performance: PerformanceFigures) -> list[str]:
    rates = [
        f"{value:,.2f} {unit}"
        for value, unit in (
            (performance.tokens_per_sec, "tokens/s"),
            (performance.samples_per_sec, "samples/s"),
        )
        if value is not None
    ]
    valid = "VALID" if performance.valid else "INVALID"
    reason = f": {performance.invalid_reason}" if performance.invalid_reason else ""
    lines = [f"{', '.join(rates)}; LoadGen: {valid}{reason}"]
    lines += [times_line(name, times) for name, times in named_times(performance)]
    name, estimates = early_stopping_estimates(performance)
    if estimates:
        lines.append(times_line(f"{name},", estimates))
    return lines + early_stopping_lines(performance)


def _remote(remote: Mapping[str, RemoteRun]) -> list[str]:
    """Lines about the performance run's servers and client, or else those of the first run."""
    found = remote.get("performance") or next(iter(remote.values()), None)
    if found is None:
        return []
    lines = [
        f"{in_words(one.url)}: {one.requests:,} requests, {one.tokens:,} tokens"
        for one in found.endpoints
    ]
    client = found.client
    out, back = (shown(value) for value in (client.out_ms, client.back_ms))
    return [
        *lines,
        f"client processes: {client.processes:,}, the busiest at {client.busy_share * 100:.3g}% of "
        f"a core; delay at p99 {out} ms out, {back} ms back",
        "the server's hardware is not known",
    ]


def _profile(profile: ProfileFigures | None) -> list[str]:
    """How to open the trace, and which operation took longest."""
    if profile is None:
        return []
    top = profile.operations
    first = top.operations[0] if top and top.operations else None
    lines = [profile.opens]
    if top and first:
        lines.append(f"longest on the {top.where}: {first.name}, {first.share * 100:.1f}%")
    return lines


def _mmlu(mmlu: MmluFigures) -> list[str]:
    lines = [
        f"MMLU {shown(mmlu.accuracy)}% of {shown(mmlu.questions, 0)} questions, "
        f"{shown(mmlu.shots, 0)} shots, through lm-eval {mmlu.lm_eval_version}",
        ", ".join(f"{d} {shown(score.accuracy)}%" for d, score in mmlu.by_domain.items()),
    ]
    if mmlu.resumed:
        lines.append(f"{mmlu.resumed:,} of them were scored by an earlier run")
    return lines


def _rules(verdicts: Sequence[Verdict]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    table.add_column("rule", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_column("required", overflow="fold")
    for verdict in verdicts:
        status = Text(verdict.status, _COLOURS[verdict.status])
        table.add_row(Text(verdict.rule), status, Text(verdict.found), Text(verdict.required))
    return table


def _regression(regression: RegressionFigures) -> RenderableType:
    """Each metric's change since the baseline, with its interval."""
    title = f"against {regression.baseline}"
    if regression.refused:
        return Text(f"{title}: {regression.refused}", "bold red")
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for name in ("metric", "verdict", "change (interval)", "noise from"):
        table.add_column(name, overflow="fold")
    for one in regression.metrics:
        outcome = Text(one.outcome, _COLOURS.get(one.outcome, ""))
        table.add_row(Text(one.label), outcome, Text(one.words), Text(one.noise_from))
    notes = [*regression.different, *filter(None, [regression.note])]
    return Group(Text(title, "bold"), table, *[Text(note, "yellow") for note in notes])


def judged_table(judged: Iterable[Judged]) -> RenderableType:
    """One line for each run judged from its logs, with the rules that failed."""
    parts: list[RenderableType] = []
    for one in judged:
        failed = one.failed_rules
        colour = _COLOURS["failed" if failed else "passed"]
        counts = f"{one.count('passed')} passed, {len(failed)} failed"
        unjudged = one.count("not judged") + one.count("shortened")
        counts += f", {unjudged} not judged" if unjudged else ""
        line = Text.assemble(f"{one.name} {one.round.name}: ", (counts, colour))
        parts.append(line + Text(f": {', '.join(failed)}" if failed else ""))
    return Group(*parts)
