"""Writes a run's reports and plots, from its folder alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.timeline import read_timeline
from mlperf_suite.reports.figures import plots_of
from mlperf_suite.reports.html import report_html
from mlperf_suite.reports.markdown import report_markdown
from mlperf_suite.reports.view import scenario_of
from mlperf_suite.results.reading import items
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


def write_reports(folder: Path) -> None:
    """Write report.md, report.html and plots/ of the run in this folder.

    Raises UsageError where there is no summary.json that can be read, OSError where the folder
    cannot be written.
    """
    summary, config = read_summary(folder), read_config(folder)
    if summary is None:
        raise UsageError(f"{folder}: no {SUMMARY_JSON} that can be read")
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


def _samples(folder: Path) -> list[Mapping[str, Any]]:
    try:
        found = json.loads((folder / "Accuracy" / SAMPLES_JSON).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    names = ("index", "article", "answer", "reference")
    kept = [one for one in items(found, "samples") if isinstance(one, dict)]
    return [{name: one.get(name, "") for name in names} for one in kept]
