"""report.md: a run's summary as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def report_markdown(summary: Mapping[str, Any]) -> str:
    """The report of a summary.json's content."""
    meta, run = summary["meta"], summary["run"]
    lines = [
        f"# {meta['benchmark']} {meta['category']} {meta['scenario']}: {meta['status']}",
        "",
        f"**{meta['label']}.** Round {meta['round']}, profile {meta['profile']}, "
        f"model {_cell(meta['model'])}, data {_cell(meta['dataset'])}, started {meta['started']}.",
    ]
    if meta["reason"]:
        lines += ["", f"**The run failed: {_cell(meta['reason'])}**"]
    lines += ["", *_performance(run.get("performance"))]
    lines += ["", *_accuracy(run.get("accuracy"))]
    lines += ["", *_rules(summary["verdicts"])]
    lines += ["", *_system(summary["system"])]
    lines += ["", "## Files", "", *[f"- [{name}]({name})" for name in summary["logs"]]]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    """A value inside a Markdown table or sentence; nothing in it is markup."""
    text = " ".join(str(value).split())
    for mark in "\\`*_{}[]<>|#":
        text = text.replace(mark, "\\" + mark)
    return text


def _number(value: object, digits: int = 2) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, int | float) else "not reported"


def _performance(figures: Mapping[str, Any] | None) -> list[str]:
    lines = ["## Performance", ""]
    if not figures:
        return [*lines, "No performance result."]
    lines += [
        f"LoadGen says: {'VALID' if figures['valid'] else 'INVALID'}.",
        "",
        "| | |",
        "|---|---:|",
        f"| tokens/s | {_number(figures['tokens_per_sec'])} |",
        f"| samples/s | {_number(figures['samples_per_sec'])} |",
        f"| new tokens | {figures['total_new_tokens']:,} |",
        f"| duration, s | {_number(figures['duration_s'])} |",
    ]
    named = (("latency", "latency_ms"), ("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"))
    shown = [(name, figures[key]) for name, key in named if figures[key]]
    if shown:
        percentiles = list(shown[0][1])
        lines += [
            "",
            "| ms | " + " | ".join(percentiles) + " |",
            "|---|" + "---:|" * len(percentiles),
        ]
        for name, values in shown:
            cells = [_number(values.get(p)) for p in percentiles]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    missing = [name for name, key in named if not figures[key]]
    if missing:
        lines += ["", f"LoadGen reports no {' and '.join(missing)} in this scenario."]
    return lines


def _accuracy(figures: Mapping[str, Any] | None) -> list[str]:
    lines = ["## Accuracy", ""]
    if not figures:
        return [*lines, "No accuracy result."]
    lines += ["| | percent |", "|---|---:|"]
    lines += [f"| {name} | {_number(value, 4)} |" for name, value in figures["rouge"].items()]
    return [
        *lines,
        "",
        f"{figures['run_gen_num']:,} answers, {figures['run_gen_len']:,} characters.",
    ]


def _rules(verdicts: list[Mapping[str, Any]]) -> list[str]:
    lines = ["## Rules", ""]
    if not verdicts:
        return [*lines, "No rule was judged."]
    shortened = [v["rule"] for v in verdicts if v["status"] == "shortened"]
    if shortened:
        lines += [f"Shortened for smoke, and so not met: {', '.join(shortened)}.", ""]
    lines += ["| rule | status | found | required | why |", "|---|---|---|---|---|"]
    for v in verdicts:
        cells = [v["rule"], v["status"], v["found"], v["required"], v["why"]]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return lines


def _system(system: Mapping[str, Any]) -> list[str]:
    lines = ["## System", "", "| | |", "|---|---|"]
    for name, value in system.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        lines.append(f"| {_cell(name)} | {_cell('none' if shown in (None, '') else shown)} |")
    return lines
