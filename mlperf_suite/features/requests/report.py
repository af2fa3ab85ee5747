"""The plots of a run's requests: how their times spread, and the run over time.

Of each time: the share of the requests that took at most so long, and below it, on the same axis,
how many took how long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.request_times import percentile
from mlperf_suite.features.requests.time_plots import RUN_SIZE, plots_over_time, time_scale
from mlperf_suite.loadgen.timeline import Timeline, read_timeline
from mlperf_suite.reports.feature_report import FeatureReport, feature_reports
from mlperf_suite.reports.performance_sections import times_words
from mlperf_suite.reports.plots import BLUE, ORANGE, titled
from mlperf_suite.reports.sections import Line, Plot, significant
from mlperf_suite.results.performance_figures import times_by_engine
from mlperf_suite.results.schema import PerformanceFigures, Summary

_MAX_POINTS, _BINS = 500, 40
_IN_TERMINAL = ("p50", "p90", "p99")
_MAX_EMPTY = 2.5
"""How many times as long as the slowest request an axis may be, to show the limit."""
_NAMES = {
    "latency": ("Latency", "latency"),
    "ttft": ("TTFT", "time to first token"),
    "tpot": ("TPOT", "time per output token"),
}
"""By the name of a time, its title and what its axis is called."""


class RequestsReport(FeatureReport):
    def curves(self, summary: Summary, folder: Path, scenario: Scenario | None) -> list[Plot]:
        timeline = read_timeline(folder / "Performance")
        if timeline is None:
            return []
        of_features = feature_reports(summary)
        below = [plot for report in of_features for plot in report.over_time(folder, summary)]
        limits = scenario.limits if scenario else {}
        spread = spread_plots(timeline, limits, summary.run.performance or PerformanceFigures())
        return [*spread, *plots_over_time(timeline, below)]

    def closing(self, summary: Summary) -> list[Line]:
        """The times that LoadGen does not report in the scenario."""
        own = summary.run.performance.suite_times_ms if summary.run.performance else {}
        shown = {
            name: {place: times[place] for place in _IN_TERMINAL if place in times}
            for name, times in own.items()
        }
        return [Line(n.upper(), f"{times_words(of)}, by the suite") for n, of in shown.items()]


REPORT = RequestsReport()


def spread_plots(
    timeline: Timeline, limits: Mapping[str, float], table: PerformanceFigures
) -> list[Plot]:
    """A plot for each time of the requests. `limits`: as in `Scenario`. `table`: LoadGen's own
    figures, whose mean and percentile are named beside the curves, as in the report's table."""
    by_engine = times_by_engine(timeline)
    times = by_engine or timeline.times
    plots = []
    for name, (title, words) in _NAMES.items():
        values: npt.NDArray[np.float64] = getattr(times, f"{name}_ms")
        values = np.sort(values[~np.isnan(values)])
        if not len(values):
            continue
        reported = getattr(table, f"{name}_ms") or {}
        by_suite = " by the suite" * (by_engine is not None and name != "latency")
        limit = limits.get(name)
        figures = {"mean": float(values.mean()), "p99": percentile(values, 0.99)} | reported
        spread = Spread(title + by_suite, words, values, figures["mean"], figures["p99"], limit)
        caption = f"{words[0].upper()}{words[1:]}{by_suite}: the share of requests up to a time"
        caption += ", and their number." + " Dashed: MLPerf's limit at p99." * bool(limit)
        plots.append(Plot(name, caption, partial(draw, spread), 2, size=RUN_SIZE))
    return plots


@dataclass(frozen=True, slots=True)
class Spread:
    """One time of all requests in ms, ascending, with its mean and percentile. `words`: what it is.
    `limit_ms`: MLPerf's at the 99th percentile, None if there is none."""

    title: str
    words: str
    values_ms: npt.NDArray[np.float64]
    mean_ms: float
    p99_ms: float
    limit_ms: float | None


def draw(spread: Spread, panels: Sequence[Any], ink: str) -> None:
    """The curve above, the histogram below."""
    curve, histogram = panels
    scale, unit = time_scale(spread.values_ms.tolist())
    times = spread.values_ms / scale
    counts, edges = np.histogram(times, _BINS)
    histogram.stairs(counts, edges, fill=True, color=BLUE, alpha=0.8)
    mean, p99 = spread.mean_ms / scale, spread.p99_ms / scale
    histogram.axvline(mean, color=ink, linestyle="-.", label=f"mean {significant(mean)} {unit}")
    histogram.set(xlabel=f"{spread.words}, {unit}", ylabel="requests")
    share = np.arange(1, len(times) + 1) / len(times) * 100
    points = np.unique(np.linspace(0, len(times) - 1, _MAX_POINTS).astype(int))
    curve.plot(times[points], share[points], color=BLUE, drawstyle="steps-post")
    curve.plot([p99], [99], "o", color=BLUE, label=f"p99 {significant(p99)} {unit}")
    curve.set(ylabel="requests, %", ylim=(0, 105))
    limit = None if spread.limit_ms is None else spread.limit_ms / scale
    end = float(times[-1])
    if limit is not None:
        end = _draw_limit(limit, unit, end, curve)
    # If all requests took equally long, the default margin is too thin to show the curve's end.
    curve.set_xlim(0, 1.05 * end or None)
    titled(curve, spread.title)
    titled(histogram)


def _draw_limit(limit: float, unit: str, last: float, axes: Any) -> float:
    """MLPerf's limit, and where the axis then ends: a far limit would leave the curve no room."""
    is_far = limit > _MAX_EMPTY * last
    label = f"limit {limit:,g} {unit}{' →' * is_far}"
    axes.axhline(99, color=ORANGE, linestyle=":", linewidth=1)
    axes.plot([np.nan if is_far else limit] * 2, [0, 105], "--", color=ORANGE, label=label)
    return last if is_far else max(last, limit)
