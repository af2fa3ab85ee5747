"""What reports say of a curve, and of several curves that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mlperf_suite.features.endpoints.curve.curve_area import common_points
from mlperf_suite.features.endpoints.curve.curve_figures import CurveFigures, curve_of
from mlperf_suite.features.endpoints.curve.curve_sections import (
    MAX_CURVES,
    curve_plots,
    curve_sections,
    curve_words,
    draw_curves,
)
from mlperf_suite.reports.comparison import run_name
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.sections import (
    Line,
    Paragraph,
    Plot,
    Plots,
    Points,
    Section,
    count,
    notes,
)
from mlperf_suite.results.baseline import BaselineRun
from mlperf_suite.results.schema import Summary


class CurveReport(FeatureReport):
    def speed(self, summary: Summary) -> list[Section]:
        return curve_sections(curve_of(summary), summary.meta.benchmark)

    def plots(self, summary: Summary) -> list[Plot]:
        return curve_plots(curve_of(summary))

    def answer(self, summary: Summary) -> Paragraph | None:
        curve, status = curve_of(summary), summary.meta.status
        if curve is None:
            return None
        if status == "invalid":
            failed = [point for point in curve.points if point.outcome == "failed"]
            words = f"No: {count(len(failed), 'point')} failed of {len(curve.points)}."
            return Paragraph(words, style="bad")
        if summary.verdicts or status != "complete":
            return None
        package = "submission --series endpoints builds its package, which is judged"
        words = f"No rule judges a curve: {summary.no_result or package}."
        return Paragraph(words, style="open")

    def scores(self, summary: Summary) -> str:
        curve = curve_of(summary)
        scored = curve is not None and any(point.accuracy for point in curve.points)
        return "The curve's table has the scores." if scored else ""

    def comparison(self, runs: Sequence[BaselineRun]) -> list[Section]:
        return _comparison(runs)

    def closing(self, summary: Summary) -> list[Line]:
        curve = curve_of(summary)
        return [] if curve is None else [Line("curve", curve_words(curve))]


REPORT = CurveReport()


def _curves(runs: Sequence[BaselineRun]) -> dict[str, CurveFigures]:
    """The first curves by their names in a legend, as many as can be told from each other."""
    rows = {
        ", ".join(filter(None, (f"{number}: {run_name(run)}", run.summary.meta.engine))): curve
        for number, run in enumerate(runs, 1)
        if (curve := curve_of(run.summary))
    }
    return dict(list(rows.items())[:MAX_CURVES])


def _comparison(runs: Sequence[BaselineRun]) -> list[Section]:
    """All curves on one chart, and where each is above the first."""
    curves = _curves(runs)
    if not curves:
        return []
    lines = [line for run in runs[1:] for line in _which_is_above(runs[0], run)]
    rest = sum(curve_of(run.summary) is not None for run in runs) - len(curves)
    left_out = [f"{count(rest, 'more curve')} not drawn."] if rest else []
    caption = "The curves as step functions, with 95% intervals; below, TTFT p90."
    plot = Plot("compare_curves", caption, partial(draw_curves, curves), panels=2)
    return [Section("Curves", [Plots([plot]), Points(lines), *notes(left_out)])]


def _which_is_above(first: BaselineRun, run: BaselineRun) -> list[str]:
    before, now = curve_of(first.summary), curve_of(run.summary)
    if before is None or now is None:
        return []
    pair = common_points(before, now)
    if pair.refusal:
        return [f"{run_name(run)} and {run_name(first)}: {pair.refusal}"]
    return [stretch.words(run_name(first), run_name(run)) for stretch in pair.stretches()]
