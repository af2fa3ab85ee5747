"""A comparison for other programs: CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mlperf_suite.features.comparing.comparison import Candidate, Comparison
from mlperf_suite.reports.csv_table import csv_text
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.typed_json import to_json
from mlperf_suite.secrets import redact

_NAMES = (
    *("run", "baseline_run", "metric", "unit", "higher_is_better", "baseline", "current"),
    *("change", "low", "high", "outcome", "noise_from"),
)


def comparison_csv(comparison: Comparison) -> str:
    """A row for each metric of each run that was compared; changes are relative, above 0 better."""
    return redact(csv_text(_NAMES, list(_records(comparison))))


def _records(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for candidate in comparison.candidates:
        names = {"run": candidate.run.name, "baseline_run": comparison.first.name}
        for change in candidate.regression.metrics:
            yield names | to_json(change)


def comparison_json(comparison: Comparison) -> str:
    """Every run, and of each but the first what differs and what changed."""
    content = {
        "runs": [_run(run) for run in comparison.runs],
        "comparisons": [_candidate(candidate) for candidate in comparison.candidates],
    }
    return redact(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _run(run: BaselineRun) -> dict[str, Any]:
    return {"name": run.name, "path": run.label, **to_json(run.summary.meta)}


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "run": candidate.run.name,
        "settings": [to_json(difference) for difference in candidate.settings],
        "other_differences": list(candidate.others),
        "not_compared": candidate.regression.refused,
        "metrics": [to_json(change) for change in candidate.regression.metrics],
    }
