"""What features say in the reports of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.feature import Feature, features
from mlperf_suite.reports.sections import Line, Paragraph, Plot, Row, Section
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.schema import Config, Summary


@dataclass(frozen=True, slots=True)
class IndexColumn:
    """A column of the index of all runs, which has it if a cell is not empty. `note`: below it."""

    name: str
    cell: Callable[[Summary], str]
    note: str


class FeatureReport:
    """A feature's part of the reports. A summary that it is asked about has figures of it, perhaps
    not all; of the runs of `comparison` and of the index, some may have none."""

    def name(self, summary: Summary) -> str:
        """The name in words of a result that is the feature's own, of no benchmark, and has a
        `page`; empty for any other."""
        return ""

    def page(self, summary: Summary, folder: Path, config: Config) -> list[Section]:
        """The whole report of a result that has a `name`. Raises UsageError if it is none."""
        raise NotImplementedError

    def tiles(self, summary: Summary) -> list[Row]:
        """Figures that readers look for first, before the run's own."""
        return []

    def speed(self, summary: Summary) -> list[Section]:
        """Sections on how fast it is, in place of the core's if there was no performance run."""
        return []

    def of_speed(self, summary: Summary) -> list[Section]:
        """Sections of level 3 after those of speed and time."""
        return []

    def sections(self, summary: Summary, config: Config | None) -> list[Section]:
        """Sections after the run's figures."""
        return []

    def curves(self, summary: Summary, folder: Path, scenario: Scenario | None) -> list[Plot]:
        """Plots of the run's requests, in its section on speed. `folder`: of the run."""
        return []

    def plots(self, summary: Summary) -> list[Plot]:
        """Plots that are written into the run's folder, besides those."""
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

    def system_note(self, summary: Summary) -> str:
        """What is said under the table of the machine's facts."""
        return ""

    def over_time(self, folder: Path, summary: Summary) -> list[Plot]:
        """What is drawn under the throughput, over the same time; a caption goes on after "Below,".

        `folder`: of the run.
        """
        return []

    def index_columns(self) -> list[IndexColumn]:
        """Columns of the index of all runs."""
        return []

    def closing(self, summary: Summary) -> list[Line]:
        """Lines of the terminal's summary."""
        return []

    def next_steps(self, summary: Summary, folder: Path) -> list[str]:
        """What whoever made a smoke run, or one that regressed, may try next: options, commands.

        `folder`: of the run.
        """
        return []

    def score(self, summary: Summary) -> str:
        """The accuracy in the index of runs."""
        return ""


def feature_reports(*summaries: Summary) -> list[FeatureReport]:
    """The `REPORT` of each feature that may say something of these summaries: one of them has its
    figures or is a result of its own, or it speaks of figures of the core."""
    reporting = (feature for feature in features() if feature.report)
    asked = (of for of in reporting if any(_is_of(of, summary) for summary in summaries))
    return [import_module(feature.report).REPORT for feature in asked]


def _is_of(feature: Feature, summary: Summary) -> bool:
    is_own = summary.meta.benchmark in feature.results
    return is_own or not feature.figures or not summary.parts.keys().isdisjoint(feature.figures)
