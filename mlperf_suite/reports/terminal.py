"""The closing tables in the terminal; they fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlperf_suite.judging.judge import Judged
from mlperf_suite.reports.view import early_stopping_estimates, early_stopping_lines, peak_line

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


def closing_table(summary: Mapping[str, Any], folder: Path) -> RenderableType:
    """A summary.json's content for a person who looks at a terminal."""
    meta, run = summary["meta"], summary["run"]
    parts: list[RenderableType] = [
        Text.assemble(
            (meta["label"], "bold"), ", ", (meta["status"], _COLOURS.get(meta["status"], ""))
        ),
        Text(
            f"{meta['benchmark']}, model {meta['model']}, data {meta['dataset']}, "
            f"round {meta['round']}"
        ),
    ]
    if meta["reason"]:
        parts.append(Text(f"failed: {meta['reason']}", "bold red"))
    parts += [Text(line) for line in _figures(run)]
    if summary.get("peak"):
        parts.append(Text(peak_line(summary["peak"]), "bold"))
    if summary["verdicts"]:
        parts.append(_rules(summary["verdicts"]))
    if summary.get("regression"):
        parts.append(_regression(summary["regression"]))
    shortened = [v["rule"] for v in summary["verdicts"] if v["status"] == "shortened"]
    if shortened:
        parts.append(Text("MLPerf rules that smoke shortens: " + ", ".join(shortened), "yellow"))
    parts.append(Text(f"report: {folder / 'report.md'}"))
    return Group(*parts)


def times_line(name: str, values_ms: Mapping[str, float]) -> str:
    """Times on a line, in ms or long ones in s, so short that six percentiles fit 80 columns."""
    if max(values_ms.values()) >= 10_000:
        unit, shown = "s", [f"{key} {value / 1000:,.4g}" for key, value in values_ms.items()]
    else:
        digits = 0 if max(values_ms.values()) >= 1000 else 1
        unit, shown = "ms", [f"{key} {value:,.{digits}f}" for key, value in values_ms.items()]
    return f"{name} {unit}: {', '.join(shown)}"


def _figures(run: Mapping[str, Any]) -> list[str]:
    lines = []
    performance, accuracy = run.get("performance"), run.get("accuracy")
    if performance:
        rates = [
            f"{performance[key]:,.2f} {unit}"
            for key, unit in (("tokens_per_sec", "tokens/s"), ("samples_per_sec", "samples/s"))
            if performance[key] is not None
        ]
        valid = "VALID" if performance["valid"] else "INVALID"
        reason = f": {performance['invalid_reason']}" if performance["invalid_reason"] else ""
        lines.append(f"{', '.join(rates)}; LoadGen: {valid}{reason}")
        for name, key in (("latency", "latency_ms"), ("TTFT", "ttft_ms"), ("TPOT", "tpot_ms")):
            if performance[key]:
                lines.append(times_line(name, performance[key]))
        name, estimates = early_stopping_estimates(performance)
        if estimates:
            lines.append(times_line(f"{name},", estimates))
        lines += early_stopping_lines(performance)
    if accuracy:
        scores = [f"{name} {value:.4f}" for name, value in accuracy["rouge"].items()]
        lines.append(f"{', '.join(scores)}; {accuracy['run_gen_num']:,} answers")
    if mmlu := run.get("mmlu"):
        lines.append(
            f"MMLU {mmlu['accuracy']:.2f}% of {mmlu['questions']:,} questions, "
            f"{mmlu['shots']} shots, through lm-eval {mmlu['lm_eval_version']}"
        )
        lines.append(", ".join(f"{d} {a['accuracy']:.2f}%" for d, a in mmlu["by_domain"].items()))
        if mmlu["resumed"]:
            lines.append(f"{mmlu['resumed']:,} of them were scored by an earlier run")
    return lines


def _rules(verdicts: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    table.add_column("rule", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_column("required", overflow="fold")
    for verdict in verdicts:
        status = verdict["status"]
        table.add_row(
            Text(verdict["rule"]),
            Text(status, _COLOURS[status]),
            Text(verdict["found"]),
            Text(verdict["required"]),
        )
    return table


def _regression(regression: Mapping[str, Any]) -> RenderableType:
    """Each metric's change since the baseline, with its interval."""
    title = f"against {regression['baseline']}"
    if regression["refused"]:
        return Text(f"{title}: {regression['refused']}", "bold red")
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for name in ("metric", "verdict", "change (interval)", "noise from"):
        table.add_column(name, overflow="fold")
    for one in regression["metrics"]:
        outcome = Text(one["outcome"], _COLOURS.get(one["outcome"], ""))
        table.add_row(Text(one["label"]), outcome, Text(one["words"]), Text(one["noise_from"]))
    notes = [*regression["different"], *filter(None, [regression["note"]])]
    return Group(Text(title, "bold"), table, *[Text(note, "yellow") for note in notes])


def judged_table(judged: Iterable[Judged]) -> RenderableType:
    """One line for each run that was judged from its logs, and the rules that failed."""
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
