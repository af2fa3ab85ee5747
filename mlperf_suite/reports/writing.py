"""Writes a run's reports and plots, from its folder alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.loadgen.timeline import read_timeline
from mlperf_suite.reports.html import report_html
from mlperf_suite.reports.markdown import report_markdown
from mlperf_suite.reports.mmlu_report import mmlu_html, mmlu_markdown
from mlperf_suite.reports.plots import plots_of
from mlperf_suite.reports.view import scenario_of
from mlperf_suite.results.baseline import MMLU_KIND
from mlperf_suite.results.metrics import performance_metrics
from mlperf_suite.results.reading import items, number, part
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_config, read_summary, write_json

SAMPLES_JSON = "samples.json"
_SAMPLES = 3
_ARTICLE_CHARACTERS = 400


def write_samples(
    folder: Path, indices: Sequence[int], answers: Sequence[str], news: Sequence[Any]
) -> None:
    """Keep a few answers for the report, beside the logs; `news` by sample index."""
    few = [
        {
            "index": index,
            "article": news[index].article[:_ARTICLE_CHARACTERS],
            "answer": answer,
            "reference": news[index].highlights,
        }
        for index, answer in zip(indices[:_SAMPLES], answers, strict=False)
    ]
    write_json(folder / SAMPLES_JSON, {"samples": few})


def refresh_figures(folder: Path) -> None:
    """Take the performance figures of the run in this folder from LoadGen's log again.

    What no log has (the time that LoadGen ran, the tokens that the SUT counted, scores) stays as
    summary.json has it. Raises UsageError where there is no summary.json that can be read.
    """
    summary = _summary(folder)
    scenario, detail = scenario_of(summary), read_logs(folder / "Performance").detail
    old = part(summary, "run", "performance")
    if scenario is None or not old or detail["result_validity"] is None:
        return
    elapsed_s, tokens = number(old, "duration_s"), number(old, "total_new_tokens")
    timeline = read_timeline(folder / "Performance")
    figures = performance_metrics(scenario, detail, elapsed_s or 0.0, int(tokens or 0), timeline)
    summary["run"]["performance"] = {**old, **figures}
    write_json(folder / SUMMARY_JSON, summary)


def _summary(folder: Path) -> dict[str, Any]:
    summary = read_summary(folder)
    if summary is None:
        raise UsageError(f"{folder}: no {SUMMARY_JSON} that can be read")
    return summary


def write_reports(folder: Path) -> None:
    """Write report.md, report.html and plots/ of the run in this folder; MMLU's plot stays.

    Raises UsageError where there is no summary.json that can be read, OSError where the folder
    cannot be written.
    """
    summary, config = _summary(folder), read_config(folder)
    if part(summary, "meta").get("benchmark") == MMLU_KIND[0]:
        _write_mmlu(folder, summary)
        return
    plots = plots_of(read_timeline(folder / "Performance"), scenario_of(summary))
    for plot in plots:
        plot.png(folder / "plots" / f"{plot.name}.png")
    if plots:
        names = {f"plots/{plot.name}.png" for plot in plots} | set(items(summary, "plots"))
        summary["plots"] = sorted(names)
        write_json(folder / SUMMARY_JSON, summary)
    (folder / "report.md").write_text(report_markdown(summary, config), encoding="utf-8")
    html = report_html(summary, config, plots, _samples(folder))
    (folder / "report.html").write_text(html, encoding="utf-8")


def _write_mmlu(folder: Path, summary: Mapping[str, Any]) -> None:
    try:
        texts = {"report.md": mmlu_markdown(summary), "report.html": mmlu_html(summary, folder)}
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{folder / SUMMARY_JSON}: not as an MMLU run leaves it") from error
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _samples(folder: Path) -> list[Mapping[str, Any]]:
    try:
        found = json.loads((folder / "Accuracy" / SAMPLES_JSON).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    names = ("index", "article", "answer", "reference")
    kept = [one for one in items(found, "samples") if isinstance(one, dict)]
    return [{name: one.get(name, "") for name in names} for one in kept]
