"""What reports say of a task's run: a page of its own, its lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mlperf_suite.errors import UsageError
from mlperf_suite.features.evals.eval_key import EVALS
from mlperf_suite.features.evals.figures import EvalFigures, EvalScore, evals_of
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.headline import findings, status_words
from mlperf_suite.reports.performance_sections import regression_sections
from mlperf_suite.reports.run_report import is_remote, remote_note, requirements, verdict_table
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Line,
    Paragraph,
    Section,
    count,
    decimal,
    notes,
    paragraphs,
    record_table,
)
from mlperf_suite.results.run_folder import SUMMARY_JSON
from mlperf_suite.results.schema import Config, Summary
from mlperf_suite.rules.verdict import in_words


class EvalReport(FeatureReport):
    def name(self, summary: Summary) -> str:
        is_own = summary.meta.benchmark == EVALS
        return in_words(summary.meta.scenario or EVALS) if is_own else ""

    def page(self, summary: Summary, folder: Path, config: Config) -> list[Section]:
        figures, meta = evals_of(summary), summary.meta
        # A run that answered nothing still has verdicts, which say why.
        if figures is None and not summary.verdicts and meta.status not in ("running", "failed"):
            raise UsageError(f"{folder / SUMMARY_JSON}: not the summary of a task's run")
        about = f"Model {meta.model}, data {meta.dataset}, started {meta.started}."
        blocks: list[Block] = [Paragraph(about), *findings(summary)]
        blocks += _blocks(figures) if figures else []
        if is_remote(summary.run, config):
            blocks.append(Paragraph(remote_note("summary.json and config.json")))
        rules = [*verdict_table(summary.verdicts), *requirements(summary.verdicts)]
        title, status = self.name(summary), status_words(summary)
        return [
            Section(title, blocks, 1, status, findings(summary)[0].style),
            *regression_sections(summary.regression),
            Section("Rules", rules),
        ]

    def closing(self, summary: Summary) -> list[Line]:
        figures = evals_of(summary)
        if figures is None:
            return []
        lines = [
            f"{_words(figures.score)} by {in_words(figures.metric or '')}, "
            f"{decimal(figures.planned, 0)} of {decimal(figures.available, 0)} documents, "
            f"{_shots(figures)}, through lm-eval {figures.lm_eval_version}",
            *([_cut(figures)] if figures.cut else []),
        ]
        if figures.resumed:
            lines.append(f"an earlier run answered {figures.resumed:,} of the requests")
        return [Line("" if number else "score", line) for number, line in enumerate(lines)]

    def score(self, summary: Summary) -> str:
        figures = evals_of(summary)
        return "" if figures is None else f"{in_words(figures.task or '')} {_words(figures.score)}"


REPORT = EvalReport()


def _blocks(figures: EvalFigures) -> list[Block]:
    """The scores, those of a group's tasks, and how fast the documents were answered."""
    template = "in the model's chat template" if figures.chat_template else "as plain text"
    lines = [
        f"{_words(figures.score)} by {figures.metric}, over {decimal(figures.planned, 0)} of "
        f"{decimal(figures.available, 0)} documents, {_shots(figures)}, prompts {template}, "
        f"through lm-eval {figures.lm_eval_version}."
    ]
    if figures.cut:
        lines.append(f"{_cut(figures)}.")
    if figures.resumed:
        lines.append(f"An earlier run answered {figures.resumed:,} of the requests.")
    rate = figures.documents_per_sec
    speed = (
        f"{f'{rate:.2f} documents/s, ' if rate is not None else ''}"
        f"{decimal(figures.requests, 0)} requests, {decimal(figures.prompt_tokens, 0)} prompt "
        f"tokens, of which {decimal(figures.cached_tokens, 0)} came from the prefix cache, "
        f"{decimal(figures.generated_tokens, 0)} generated tokens."
    )
    metrics = _rows("metric", figures.scores) if len(figures.scores) > 1 else []
    tables = [*_rows("task", figures.by_task), *metrics]
    return [*paragraphs(lines), *tables, *notes([speed])]


def _rows(name: str, scores: Mapping[str, EvalScore]) -> list[Block]:
    """A table of scores, a row for each."""
    rows: list[dict[str, Cell]] = [
        {
            name: of,
            "score": _value(score),
            "standard error": "" if score.stderr is None else decimal(score.stderr),
            "documents": decimal(score.documents, 0),
        }
        for of, score in scores.items()
    ]
    return list(record_table(rows, [name], style=""))


def _value(score: EvalScore) -> str:
    if score.value is None:
        return "no score"
    return f"{score.value:,.2f}%" if score.unit == "%" else f"{score.value:,.4g}"


def _words(score: EvalScore) -> str:
    error = "" if score.stderr is None else f" (standard error {score.stderr:.2f})"
    return f"{_value(score)}{error}"


def _shots(figures: EvalFigures) -> str:
    known = figures.shots is not None
    return f"{figures.shots} shots" if known else "shots that differ by task"


def _cut(figures: EvalFigures) -> str:
    answers = count(figures.cut or 0, "answer")
    return f"{answers} ended at the task's limit of tokens, not by the answer's own end"
