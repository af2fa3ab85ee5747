"""What features say in the reports of a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from mlperf_suite.feature import features
from mlperf_suite.reports.sections import Line, Paragraph, Plot, Row, Section
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.schema import Config, Summary


class FeatureReport:
    """A feature's part of the reports. Each says nothing of a summary without its figures."""

    def tiles(self, summary: Summary) -> list[Row]:
        """Figures that readers look for first, before the run's own."""
        return []

    def speed(self, summary: Summary) -> list[Section]:
        """Sections on how fast it is, in place of the core's if there was no performance run."""
        return []

    def sections(self, summary: Summary, config: Config | None) -> list[Section]:
        """Sections after the run's figures."""
        return []

    def plots(self, summary: Summary) -> list[Plot]:
        """Plots that are written into the run's folder."""
        return []

    def answer(self, summary: Summary) -> Paragraph | None:
        """Whether a result is valid of which no rule failed; None if its rules alone say so."""
        return None

    def scores(self, summary: Summary) -> str:
        """Where the scores are, a sentence, if there was no accuracy run."""
        return ""

    def comparison(self, runs: Sequence[BaselineRun]) -> list[Section]:
        """Sections of a comparison of runs. Their plots are drawn into its plot as well."""
        return []

    def closing(self, summary: Summary) -> list[Line]:
        """Lines of the terminal's summary."""
        return []


@cache
def feature_reports() -> tuple[FeatureReport, ...]:
    """The `REPORT` of each feature that has one."""
    places = (feature.report for feature in features() if feature.report)
    return tuple(import_module(place).REPORT for place in places)
