"""The report and the plot of an MMLU result."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlperf_suite.datasets.mmlu_subjects import CHANCE, DOMAINS
from mlperf_suite.reports.html import render
from mlperf_suite.reports.markdown import in_cell

_COLOURS = {
    "STEM": "#0072B2",
    "Humanities": "#D55E00",
    "Social Sciences": "#009E73",
    "Other": "#CC79A7",
}
"""Okabe and Ito's, which a colour-blind reader tells apart."""


def plot_subjects(by_subject: Mapping[str, float], overall: float, title: str, path: Path) -> None:
    """A bar for each subject (percent), grouped by domain, sorted within, and the overall line."""
    from matplotlib.figure import Figure

    rows: list[tuple[str, str, float]] = []
    for domain, subjects in DOMAINS.items():
        of_domain = [(s, by_subject[s]) for s in subjects if s in by_subject]
        rows += [(domain, s, v) for s, v in sorted(of_domain, key=lambda pair: -pair[1])]
    figure = Figure(figsize=(9, 2.2 + 0.21 * len(rows)), layout="constrained")
    axis = figure.subplots()
    # A gap between the domains; the first row is the uppermost.
    order = list(DOMAINS)
    heights = [-(i + 1.2 * order.index(domain)) for i, (domain, _, _) in enumerate(rows)]
    axis.barh(heights, [v for _, _, v in rows], color=[_COLOURS[d] for d, _, _ in rows], height=0.8)
    for height, (_, _, value) in zip(heights, rows, strict=True):
        axis.text(value + 0.7, height, f"{value:.0f}", va="center", fontsize=7)
    axis.set_yticks(heights, [s.replace("_", " ") for _, s, _ in rows], fontsize=8)
    for domain in order:
        first = next((h for h, (d, _, _) in zip(heights, rows, strict=True) if d == domain), None)
        if first is not None:
            axis.text(
                105, first, domain, color=_COLOURS[domain], weight="bold", va="center", ha="right"
            )
    axis.axvline(overall, color="black", linewidth=1.2, label=f"overall {overall:.1f}%")
    axis.axvline(CHANCE, color="grey", linewidth=1, linestyle=":", label=f"guessing {CHANCE:.0f}%")
    axis.set_xlim(0, 106)
    axis.set_ylim(min(heights) - 1, max(heights) + 1)
    axis.set_xlabel("right answers, percent")
    axis.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def mmlu_html(summary: Mapping[str, Any], folder: Path) -> str:
    """report.html of an MMLU run, in one file with its plots, from its summary.json's content."""
    plots = [base64.b64encode((folder / name).read_bytes()).decode() for name in summary["plots"]]
    figures = summary["run"]["mmlu"]
    speed = _speed(figures) if figures else ""
    return render(
        "mmlu.html.j2",
        meta=summary["meta"],
        figures=figures,
        speed=speed,
        verdicts=summary["verdicts"],
        plots=plots,
    )


def mmlu_markdown(summary: Mapping[str, Any]) -> str:
    """report.md of an MMLU run, from its summary.json's content."""
    meta, figures = summary["meta"], summary["run"]["mmlu"]
    lines = [
        f"# MMLU: {meta['status']}",
        "",
        f"**{meta['label']}.** Model {in_cell(meta['model'])}, data {in_cell(meta['dataset'])}, "
        f"started {meta['started']}.",
    ]
    if meta["reason"]:
        lines += ["", f"**The run failed: {in_cell(meta['reason'])}**"]
    if figures:
        lines += ["", *_scores(figures)]
    lines += [
        "",
        "## Rules",
        "",
        "| rule | status | found | required | why |",
        "|---|---|---|---|---|",
    ]
    for v in summary["verdicts"]:
        cells = [v["rule"], v["status"], v["found"], v["required"], v["why"]]
        lines.append("| " + " | ".join(map(in_cell, cells)) + " |")
    lines += ["", *[f"![score by subject]({name})" for name in summary["plots"]]]
    return "\n".join(lines) + "\n"


def _scores(figures: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{figures['accuracy']:.2f}% of {figures['questions']:,} questions, "
        f"{figures['shots']} worked examples before each, through lm-eval "
        f"{figures['lm_eval_version']}.",
    ]
    if figures["questions"] < figures["planned"]:
        lines.append(f"**{figures['planned'] - figures['questions']:,} questions are not scored.**")
    lines += ["", "| domain | percent | standard error | questions |", "|---|---:|---:|---:|"]
    for domain, accuracy in figures["by_domain"].items():
        stderr = accuracy["stderr"]
        lines.append(
            f"| {domain} | {accuracy['accuracy']:.2f} | "
            f"{'' if stderr is None else f'{stderr:.2f}'} | {accuracy['questions']:,} |"
        )
    if figures["questions_per_sec"] is not None:
        lines += ["", f"{figures['questions_per_sec']:.2f} questions/s, {_speed(figures)}."]
    return lines


def _speed(figures: Mapping[str, Any]) -> str:
    return (
        f"{figures['tokens']:,} prompt tokens, of which {figures['cached_tokens']:,} came from the "
        f"prefix cache; latency p50 {figures['latency_ms']['p50']:.0f} ms, "
        f"p99 {figures['latency_ms']['p99']:.0f} ms"
    )
