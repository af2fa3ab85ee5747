"""What reports say of a peak search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import limit_name
from mlperf_suite.features.peak_search.figures import PART, PeakFigures, PeakSearch
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE
from mlperf_suite.reports.sections import Line, Row, count, decimal, save_figure
from mlperf_suite.results.schema import Summary


class PeakReport(FeatureReport):
    def tiles(self, summary: Summary) -> list[Row]:
        peak: PeakFigures = summary.parts[PART]
        limit, value = peak.why_at_least, decimal(peak.peak_qps)
        value = f"at least {value}: {limit}" if limit else value
        return [("highest valid rate, queries/s", value)]

    def closing(self, summary: Summary) -> list[Line]:
        return [Line("peak", _words(summary.parts[PART]))]


REPORT = PeakReport()


def _words(peak: PeakFigures) -> str:
    """The outcome of a search for the highest valid rate, in a sentence."""
    rate, runs = peak.peak_qps, count(peak.runs, "run")
    if rate is None:
        return f"No rate was VALID in {runs}: see peak_qps.json."
    limit = peak.why_at_least
    bound, why = ("at least ", f": {limit}") if limit else ("", "")
    good = "" if peak.goodput_qps is None else f"; by goodput {peak.goodput_qps:g}"
    return (
        f"Highest valid rate: {bound}{rate:g} queries/s, confirmed at full length{good}; "
        f"{runs}{why}."
    )


def plot_peak(search: PeakSearch, limits: Mapping[str, float], title: str, path: Path) -> None:
    """Plot the limited latencies at p99 (ms) over the target QPS, with their limits.

    `limits`: as in `Scenario`; at least one.
    """
    from matplotlib.figure import Figure

    trials, peak_qps = search.trials, search.peak_qps
    if peak_qps is not None and not search.bounded:
        title += f"\n{search.words}"
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots(len(limits), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, limit) in zip(axes, limits.items(), strict=True):
        _draw_trials(search, [getattr(t, f"{name}_p99_ms") for t in trials], axis)
        axis.axhline(limit, color="black", linestyle="--", linewidth=1, label=f"limit {limit:g} ms")
        if peak_qps is not None:
            label = f"{'peak' if search.bounded else 'at least'} {peak_qps:g} queries/s"
            axis.axvline(peak_qps, color=GREEN, linewidth=1, label=label)
        axis.set(ylabel=f"{limit_name(name)} p99, ms", ylim=(0, None))
        axis.legend(fontsize="small")
    axes[-1].set_xlabel("target rate, queries/s")
    figure.suptitle(title)
    save_figure(figure, path, dpi=120)


def _draw_trials(search: PeakSearch, values: Sequence[float | None], axis: Any) -> None:
    points = [
        (trial.target_qps, value, trial.valid)
        for trial, value in zip(search.trials, values, strict=True)
        if value is not None
    ]
    for valid, label, marker, colour in (
        (True, "VALID", "o", BLUE),
        (False, "INVALID", "x", ORANGE),
    ):
        rates = [rate for rate, _, is_valid in points if is_valid is valid]
        times = [time for _, time, is_valid in points if is_valid is valid]
        axis.plot(rates, times, marker, color=colour, label=label)
