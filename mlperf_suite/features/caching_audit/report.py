"""What reports say of the caching audit."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from mlperf_suite.features.caching_audit.block_times import MODE
from mlperf_suite.features.caching_audit.figures import PART, CachingFigures
from mlperf_suite.reports.closing import rules_line
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.sections import NOT_REPORTED, Line, Section, decimal, figure_table
from mlperf_suite.results.schema import Config, Summary
from mlperf_suite.rules.verdict import times_in_unit


class CachingReport(FeatureReport):
    def sections(self, summary: Summary, config: Config | None) -> list[Section]:
        caching = summary.parts.get(PART)
        return [] if caching is None else _sections(caching)

    def closing(self, summary: Summary) -> list[Line]:
        return rules_line(MODE, summary.verdicts)


REPORT = CachingReport()


def _sections(caching: CachingFigures) -> list[Section]:
    """The caching audit: one sample repeated against samples never sent before."""
    tokens = caching.cached_tokens
    rows = [
        ("finding", caching.finding),
        ("a repeated sample is faster by", _share(caching.faster)),
        ("99% interval", f"{_share(caching.low)} to {_share(caching.high)}"),
        ("time of a block of new samples", _block_times(caching.mix_ms)),
        ("time of a block of one repeated sample", _block_times(caching.same_ms)),
        ("pairs of blocks", decimal(len(caching.mix_ms), 0)),
        ("samples per block, sent at once", decimal(caching.at_once, 0)),
        ("tokens per prompt, per answer", f"{caching.prompt_tokens}, {caching.answer_tokens}"),
        ("index of the repeated sample", str(caching.sample)),
        ("prompt tokens from a cache", "not counted" if tokens is None else decimal(tokens, 0)),
    ]
    return [Section("Caching audit (the suite's own, not MLPerf's)", [figure_table(rows)])]


def _share(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1%}"


def _block_times(times: Sequence[float]) -> str:
    if not times:
        return NOT_REPORTED
    (middle, least, most), unit = times_in_unit((median(times), min(times), max(times)))
    return f"{middle} {unit} ({least} to {most})"
