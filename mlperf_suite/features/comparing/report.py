"""What a run that regressed says of the command compare."""

from __future__ import annotations

import shlex
from pathlib import Path

from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.results.schema import Summary


class ComparingReport(FeatureReport):
    def next_steps(self, summary: Summary, folder: Path) -> list[str]:
        if not (summary.regression and summary.regressed and summary.regression.baseline):
            return []
        runs = shlex.join([summary.regression.baseline, str(folder)])
        return [f"python -m mlperf_suite compare {runs}: what differs between them"]


REPORT = ComparingReport()
