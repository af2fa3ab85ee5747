"""The report and the plot of an MMLU result."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from mlperf_suite.datasets.mmlu_questions import CHANCE, DOMAINS
from mlperf_suite.reports.html import render
from mlperf_suite.reports.markdown import in_cell
from mlperf_suite.reports.view import REMOTE_NOTE_OF_FILES, is_remote, shown
from mlperf_suite.results.schema import Config, MmluFigures, Summary

_COLOURS = {
    "STEM": "#0072B2",
    "Humanities": "#D55E00",
    "Social Sciences": "#009E73",
    "Other": "#CC79A7",
}
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""


def plot_subjects(by_subject: Mapping[str, float], overall: float, title: str, path: Path) -> None:
    """A bar for each subject (percent), grouped by domain, sorted within, and the overall line."""
    from matplotlib.figure import Figure

    rows: list[tuple[str, str, float]] = []
    for domain, subjects in DOMAINS.items():
        of_domain = [(s, by_subject[s]) for s in subjects if s in by_subject]
        rows += [(domain, s, v) for s, v in sorted(of_domain, key=lambda pair: -pair[1])]
    figure = Figure(figsize=(9, 2.2 + 0.21 * len(rows)), layout="constrained")
    axis = figure.subplots()
    # With a gap between domains; the first row is at the top.
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


def mmlu_html(summary: Summary, folder: Path, config: Config | None = None) -> str:
    """report.html of an MMLU run, self-contained with its plots. `config`: its config.json, if
    any.

    Raises OSError if a plot cannot be read.
    """
    plots = [base64.b64encode((folder / name).read_bytes()).decode() for name in summary.plots]
    figures = summary.run.mmlu
    return render(
        "mmlu.html.j2",
        meta=summary.meta,
        scores=_scores(figures) if figures else [],
        domains=_domains(figures) if figures else [],
        speed=_speed(figures) if figures else "",
        remote_note=REMOTE_NOTE_OF_FILES if is_remote(summary.run, config) else "",
        verdicts=summary.verdicts,
        plots=plots,
    )


def mmlu_markdown(summary: Summary, config: Config | None = None) -> str:
    """report.md of an MMLU run. `config`: its config.json, if any."""
    meta, figures = summary.meta, summary.run.mmlu
    lines = [
        f"# MMLU: {in_cell(meta.status)}",
        "",
        f"**{in_cell(meta.label)}.** Model {in_cell(meta.model)}, data {in_cell(meta.dataset)}, "
        f"started {in_cell(meta.started)}.",
    ]
    if meta.reason:
        lines += ["", f"**The run failed: {in_cell(meta.reason)}**"]
    if figures:
        lines += ["", *[in_cell(line) for line in _scores(figures)], ""]
        lines += ["| domain | percent | standard error | questions |", "|---|---:|---:|---:|"]
        lines += ["| " + " | ".join(map(in_cell, row)) + " |" for row in _domains(figures)]
        lines += ["", in_cell(_speed(figures))]
    if is_remote(summary.run, config):
        lines += ["", REMOTE_NOTE_OF_FILES]
    lines += [
        "",
        "## Rules",
        "",
        "| rule | status | found | required | why |",
        "|---|---|---|---|---|",
    ]
    for v in summary.verdicts:
        cells = (v.rule, v.status, v.found, v.required, v.why)
        lines.append("| " + " | ".join(map(in_cell, cells)) + " |")
    lines += ["", *[f"![score by subject]({name})" for name in summary.plots]]
    return "\n".join(lines) + "\n"


def _scores(figures: MmluFigures) -> list[str]:
    """One sentence with the score and one with what is missing."""
    lines = [
        f"{shown(figures.accuracy)}% of {shown(figures.questions, 0)} questions, "
        f"{shown(figures.shots, 0)} worked examples before each, through lm-eval "
        f"{figures.lm_eval_version}."
    ]
    missing = (figures.planned or 0) - (figures.questions or 0)
    return [*lines, f"{missing:,} questions are not scored."] if missing > 0 else lines


def _domains(figures: MmluFigures) -> list[tuple[str, str, str, str]]:
    return [
        (
            domain,
            shown(score.accuracy),
            "" if score.stderr is None else shown(score.stderr),
            shown(score.questions, 0),
        )
        for domain, score in figures.by_domain.items()
    ]


def _speed(figures: MmluFigures) -> str:
    rate = figures.questions_per_sec
    p50, p99 = (figures.latency_ms.get(name) for name in ("p50", "p99"))
    return (
        f"{f'{rate:.2f} questions/s, ' if rate is not None else ''}"
        f"{shown(figures.tokens, 0)} prompt tokens, of which {shown(figures.cached_tokens, 0)} "
        f"came from the prefix cache; latency p50 {shown(p50, 0)} ms, p99 {shown(p99, 0)} ms."
    )
