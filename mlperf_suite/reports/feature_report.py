"""What features say in the reports of a run."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from mlperf_suite.feature import features
from mlperf_suite.reports.sections import Line, Row, Section
from mlperf_suite.results.schema import Config, Summary


class FeatureReport:
    """A feature's part of the reports. Each says nothing of a summary without its figures."""

    def tiles(self, summary: Summary) -> list[Row]:
        """Figures that readers look for first, before the run's own."""
        return []

    def sections(self, summary: Summary, config: Config | None) -> list[Section]:
        """Sections after the run's figures."""
        return []

    def closing(self, summary: Summary) -> list[Line]:
        """Lines of the terminal's summary."""
        return []


@cache
def feature_reports() -> tuple[FeatureReport, ...]:
    """The `REPORT` of each feature that has one."""
    places = (feature.report for feature in features() if feature.report)
    return tuple(import_module(place).REPORT for place in places)
