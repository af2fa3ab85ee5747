"""What a run says of comparisons: of the command compare if it regressed, and what it would hide
as a baseline."""

from __future__ import annotations

import shlex
from pathlib import Path

from mlperf_suite.features.comparing.hidden_losses import hidden_losses
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.sections import Line, Paragraph, Section
from mlperf_suite.results.schema import Summary


class ComparingReport(FeatureReport):
    def of_speed(self, summary: Summary) -> list[Section]:
        words = _hides(summary)
        return [Section("As a baseline", [Paragraph(words, style="open")], 3)] if words else []

    def closing(self, summary: Summary) -> list[Line]:
        words = _hides(summary)
        return [Line("baseline", words, style="open")] if words else []

    def next_steps(self, summary: Summary, folder: Path) -> list[str]:
        if not (summary.regression and summary.regressed and summary.regression.baseline):
            return []
        runs = shlex.join([summary.regression.baseline, str(folder)])
        return [f"python -m mlperf_suite compare {runs}: what differs between them"]


def _hides(summary: Summary) -> str:
    """Of a run that has no baseline itself, and may become one."""
    words = "" if summary.regression else hidden_losses(summary)
    return f"{words[:1].upper()}{words[1:]}." if words else ""


REPORT = ComparingReport()
