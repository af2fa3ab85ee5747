"""What reports say of an MMLU run: a page of its own, its lines, its plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mlperf_suite.errors import UsageError
from mlperf_suite.features.mmlu.figures import MmluFigures, mmlu_of
from mlperf_suite.features.mmlu.key import MMLU
from mlperf_suite.features.mmlu.mmlu_questions import CHANCE, DOMAINS
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.headline import findings, status_words
from mlperf_suite.reports.performance_sections import regression_sections
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE
from mlperf_suite.reports.run_report import is_remote, remote_note, requirements, verdict_table
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Line,
    Paragraph,
    Picture,
    Section,
    decimal,
    notes,
    paragraphs,
    record_table,
    save_figure,
    time_cell,
)
from mlperf_suite.results.run_folder import SUMMARY_JSON
from mlperf_suite.results.schema import Config, Summary

_NAME = str(MMLU)
_DOMAIN_COLOURS = dict(zip(DOMAINS, (BLUE, ORANGE, GREEN, "#CC79A7"), strict=True))


class MmluReport(FeatureReport):
    def name(self, summary: Summary) -> str:
        return _NAME if summary.meta.kind == MMLU.benchmark_and_scenario else ""

    def page(self, summary: Summary, folder: Path, config: Config) -> list[Section]:
        # A run that scored nothing still has verdicts, which say why.
        scored = mmlu_of(summary) is not None or summary.verdicts
        if not scored and summary.meta.status not in ("running", "failed"):
            raise UsageError(f"{folder / SUMMARY_JSON}: not the summary of an MMLU run")
        return mmlu_sections(summary, folder, config)

    def closing(self, summary: Summary) -> list[Line]:
        mmlu = mmlu_of(summary)
        lines = [] if mmlu is None else _lines(mmlu)
        return [Line("" if number else _NAME, line) for number, line in enumerate(lines)]

    def score(self, summary: Summary) -> str:
        mmlu = mmlu_of(summary)
        return "" if mmlu is None or mmlu.accuracy is None else f"MMLU {mmlu.accuracy:,.2f}%"


REPORT = MmluReport()


def mmlu_sections(summary: Summary, folder: Path, config: Config | None = None) -> list[Section]:
    """The report of an MMLU run, whose plots are in its folder."""
    meta, mmlu = summary.meta, mmlu_of(summary)
    about = f"Model {meta.model}, data {meta.dataset}, started {meta.started}."
    blocks: list[Block] = [Paragraph(about), *findings(summary)]
    blocks += _blocks(mmlu) if mmlu else []
    if is_remote(summary.run, config):
        blocks.append(Paragraph(remote_note("summary.json and config.json")))
    rules = [*verdict_table(summary.verdicts), *requirements(summary.verdicts)]
    pictures = [
        Picture(folder, name, "score by subject")
        for name in sorted(_plots(folder) & set(summary.plots))
    ]
    return [
        Section(_NAME, blocks, 1, status_words(summary), findings(summary)[0].style),
        *regression_sections(summary.regression),
        Section("Rules", [*rules, *pictures]),
    ]


def _plots(folder: Path) -> set[str]:
    """The plots in a run's folder. A summary may name any file, which no report is to contain."""
    paths = (folder / "plots").glob("*.png") if not (folder / "plots").is_symlink() else ()
    return {f"plots/{path.name}" for path in paths if path.is_file() and not path.is_symlink()}


def _blocks(mmlu: MmluFigures) -> list[Block]:
    """The score, that of each domain, and how fast the questions were answered."""
    lines = [
        f"{decimal(mmlu.accuracy)}% of {decimal(mmlu.questions, 0)} questions, "
        f"{decimal(mmlu.shots, 0)} worked examples before each, through lm-eval "
        f"{mmlu.lm_eval_version}."
    ]
    absent = (mmlu.planned or 0) - (mmlu.questions or 0)
    if absent > 0:
        lines.append(f"{absent:,} questions were not scored.")
    domains: list[dict[str, Cell]] = [
        {
            "domain": domain,
            "percent": decimal(score.accuracy),
            "standard error": "" if score.stderr is None else decimal(score.stderr),
            "questions": decimal(score.questions, 0),
        }
        for domain, score in mmlu.by_domain.items()
    ]
    rate = mmlu.questions_per_sec
    p50, p99 = (time_cell(mmlu.latency_ms.get(name)) for name in ("p50", "p99"))
    speed = (
        f"{f'{rate:.2f} questions/s, ' if rate is not None else ''}"
        f"{decimal(mmlu.tokens, 0)} prompt tokens, of which {decimal(mmlu.cached_tokens, 0)} "
        f"came from the prefix cache; latency p50 {p50}, p99 {p99}."
    )
    table = record_table(domains, ["domain"], style="")
    return [*paragraphs(lines), *table, *notes([speed])]


def _lines(mmlu: MmluFigures) -> list[str]:
    """What the closing summary says of MMLU."""
    lines = [
        f"MMLU {decimal(mmlu.accuracy)}% of {decimal(mmlu.questions, 0)} questions, "
        f"{decimal(mmlu.shots, 0)} shots, through lm-eval {mmlu.lm_eval_version}",
        ", ".join(f"{d} {decimal(score.accuracy)}%" for d, score in mmlu.by_domain.items()),
    ]
    if mmlu.resumed:
        lines.append(f"an earlier run scored {mmlu.resumed:,} of them")
    return lines


def plot_subjects(by_subject: Mapping[str, float], overall: float, title: str, path: Path) -> None:
    """MMLU: a bar for each subject (percent), by domain, sorted within, and the overall line."""
    from matplotlib.figure import Figure

    rows: list[tuple[str, str, float]] = []
    for domain, subjects in DOMAINS.items():
        scores = [(name, by_subject[name]) for name in subjects if name in by_subject]
        rows += [(domain, s, v) for s, v in sorted(scores, key=lambda pair: -pair[1])]
    figure = Figure(figsize=(9, 2.2 + 0.21 * len(rows)), layout="constrained")
    axis = figure.subplots()
    # With a gap between domains; the first row is at the top.
    order = list(DOMAINS)
    heights = [-(i + 1.2 * order.index(domain)) for i, (domain, _, _) in enumerate(rows)]
    colours = [_DOMAIN_COLOURS[domain] for domain, _, _ in rows]
    axis.barh(heights, [v for _, _, v in rows], color=colours, height=0.8)
    for height, (_, _, value) in zip(heights, rows, strict=True):
        axis.text(value + 0.7, height, f"{value:.0f}", va="center", fontsize=7)
    axis.set_yticks(heights, [s.replace("_", " ") for _, s, _ in rows], fontsize=8)
    for domain, colour in _DOMAIN_COLOURS.items():
        first = next((h for h, (d, _, _) in zip(heights, rows, strict=True) if d == domain), None)
        if first is not None:
            axis.text(105, first, domain, color=colour, weight="bold", va="center", ha="right")
    axis.axvline(overall, color="black", linewidth=1.2, label=f"overall {overall:.1f}%")
    axis.axvline(CHANCE, color="grey", linewidth=1, linestyle=":", label=f"guessing {CHANCE:.0f}%")
    axis.set(xlim=(0, 106), ylim=(min(heights) - 1, max(heights) + 1))
    axis.set_xlabel("correct answers, %")
    axis.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    save_figure(figure, path, dpi=130)
