"""Writes a run's reports and plots from its folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.energy.energy_figures import read_curve
from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.loadgen.timeline import read_timeline
from mlperf_suite.reports.comparison import ANSWERS_JSON, SAMPLES_JSON
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.reports.plots import plots_of
from mlperf_suite.reports.run_report import mmlu_sections, run_sections
from mlperf_suite.reports.sections import Section
from mlperf_suite.results.baseline import MMLU_KIND
from mlperf_suite.results.performance_figures import performance_figures
from mlperf_suite.results.run_folder import (
    SUMMARY_JSON,
    read_config,
    read_object,
    read_summary,
    summary_fault,
    write_json,
    write_json_list,
)
from mlperf_suite.results.schema import Config, Summary

_SAMPLES = 3
_INPUT_CHARACTERS = 400


def write_samples(
    folder: Path, indices: Sequence[int], answers: Sequence[str], samples: Sequence[Sample]
) -> None:
    """Write each answer's text beside the logs, and a few with their inputs for the report.

    `samples`: by their index in the QSL. `indices`: of the answers, in the data's order.
    """
    entries = (
        {"index": index, "answer": answer} for index, answer in zip(indices, answers, strict=True)
    )
    write_json_list(folder / ANSWERS_JSON, "answers", entries)
    few = [
        {
            "index": index,
            "input": samples[index].input[:_INPUT_CHARACTERS],
            "answer": answer,
            "reference": samples[index].reference,
        }
        for index, answer in zip(indices[:_SAMPLES], answers, strict=False)
    ]
    write_json(folder / SAMPLES_JSON, {"samples": few})


def refresh_figures(folder: Path) -> None:
    """Read the performance figures of the run in this folder again from LoadGen's log.

    What no log contains (LoadGen's run time, the tokens counted by the SUT, scores) stays as in
    summary.json. Raises UsageError if there is no readable summary.json.
    """
    summary = _summary(folder)
    scenario, detail = _scenario(summary), read_logs(folder / "Performance").detail
    old = summary.run.performance
    if scenario is None or old is None or detail["result_validity"] is None:
        return
    elapsed_s, tokens = old.duration_s or 0.0, old.total_new_tokens or 0
    timeline = read_timeline(folder / "Performance")
    figures = performance_figures(scenario, detail, elapsed_s, tokens, timeline)
    figures = replace(figures, repeats=old.repeats, untimed=old.untimed)
    run = replace(summary.run, performance=figures)
    write_json(folder / SUMMARY_JSON, replace(summary, run=run).as_json())


def _scenario(summary: Summary) -> Scenario | None:
    """The scenario of a summary, with its limits; None if it is not known."""
    benchmark = BENCHMARKS.get(summary.meta.benchmark or "")
    scenarios = benchmark.scenarios if benchmark else ()
    return next((s for s in scenarios if s.name == summary.meta.scenario), None)


def _summary(folder: Path) -> Summary:
    summary = read_summary(folder)
    if summary is None:
        raise UsageError(f"{folder}: {summary_fault(folder)}")
    return summary


def write_reports(folder: Path) -> None:
    """Write report.md, report.html and plots/ of the run in this folder; MMLU's plot is kept.

    Raises UsageError if there is no readable summary.json, OSError if the folder cannot be
    written.
    """
    summary, config = _summary(folder), Config.read(read_config(folder))
    if summary.meta.kind == MMLU_KIND:
        # A run that scored nothing still has verdicts, which say why.
        scored = summary.run.mmlu is not None or summary.verdicts
        if not scored and summary.meta.status not in ("running", "failed"):
            raise UsageError(f"{folder / SUMMARY_JSON}: not the summary of an MMLU run")
        sections = mmlu_sections(summary, folder, config)
    else:
        sections = _sections_with_plots(folder, summary, config)
    (folder / "report.md").write_text(markdown_text(sections), encoding="utf-8")
    (folder / "report.html").write_text(html_page(sections), encoding="utf-8")


def _sections_with_plots(folder: Path, summary: Summary, config: Config) -> list[Section]:
    """A run's report, whose plots are written too and named in its summary."""
    timeline = read_timeline(folder / "Performance")
    power = read_curve(folder / "Performance") if summary.run.energy else None
    plots = plots_of(timeline, _scenario(summary), summary.run.performance, power)
    for plot in plots:
        plot.png(folder / "plots" / f"{plot.name}.png")
    if plots:
        names = {f"plots/{plot.name}.png" for plot in plots} | set(summary.plots)
        summary = replace(summary, plots=tuple(sorted(names)))
        write_json(folder / SUMMARY_JSON, summary.as_json())
    return run_sections(summary, config, plots, _samples(folder))


def _samples(folder: Path) -> list[dict[str, str]]:
    """The answers that were kept."""
    content = (read_object(folder / "Accuracy" / SAMPLES_JSON) or {}).get("samples")
    return [
        {
            "index": str(sample.get("index", "")),
            "input": str(sample.get("input", "")),
            "answer": str(sample.get("answer", "")),
            "reference": str(sample.get("reference", "")),
        }
        for sample in (content if isinstance(content, list) else ())
        if isinstance(sample, dict)
    ]
