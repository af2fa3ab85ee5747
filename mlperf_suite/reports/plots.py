"""Draws the plots of a run: PNG files for its folder, and SVG that takes the colours of its page.

The curves show the requests in timeline.json; a percentile named beside a curve is LoadGen's own,
as in the report's table. Colours are Okabe and Ito's, and no line is identified by colour alone.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.percentile import percentile
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.results.schema import PerformanceFigures

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
_INK, _GRID = "#101112", "#909192"
"""Placeholders for the page's colours in inline SVG."""
_RATE_WINDOWS = 60
_MOST_POINTS = 500
_LIFE_BARS, _BATCH_POINTS = 60, 150
_LIFE_STYLES = (
    ("#CC79A7", "..."),
    ("#E69F00", "xx"),
    (ORANGE, "//"),
    (GREEN, "--"),
    (BLUE, ""),
    ("#56B4E9", "oo"),
)
"""The colour and hatch of each part of a request's life."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its file name, its caption and the function that draws it on matplotlib axes.

    `panels`: stacked axes that share their x axis; if there are several, `draw` gets all of them.
    """

    name: str
    caption: str
    draw: Any
    panels: int = 1

    def figure(self, ink: str, grid: str) -> Any:
        """The drawn figure, with text in `ink` and grid lines in `grid`."""
        import matplotlib as mpl
        from matplotlib.figure import Figure

        style: Any = {
            "svg.fonttype": "none",
            "svg.hashsalt": self.name,
            "font.size": 10,
            "text.color": ink,
            "axes.labelcolor": ink,
            "axes.edgecolor": ink,
            "xtick.color": ink,
            "ytick.color": ink,
            "grid.color": grid,
            "grid.alpha": 0.25,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
        }
        with mpl.rc_context(style):
            figure = Figure(figsize=(5.2, 3.2 + 2.0 * (self.panels - 1)), layout="constrained")
            axes = figure.subplots(self.panels, sharex=True)
            for one in figure.axes:
                one.grid(True)
            self.draw(axes, ink)
        return figure

    def png(self, path: Path) -> None:
        """Write the plot as an image with a white background."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.figure("black", "#808080").savefig(path, dpi=130, facecolor="white")

    def svg(self) -> str:
        """The plot as an SVG element; text, axes and grid take the surrounding text's colour."""
        import matplotlib as mpl

        text = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}):
            figure = self.figure(_INK, _GRID)
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        drawn = text.getvalue()
        drawn = drawn[drawn.index("<svg") :]
        return drawn.replace(_INK, "currentColor").replace(_GRID, "currentColor")


def plots_of(
    timeline: Timeline | None,
    scenario: Scenario | None,
    performance: PerformanceFigures | None = None,
) -> list[Plot]:
    """Every plot for which the run's timeline has data.

    `performance`: LoadGen's own figures, whose percentiles are named if reported.
    """
    if timeline is None:
        return []
    said = performance or PerformanceFigures()
    limits = scenario.limits if scenario else None
    ttft_limit, tpot_limit = (limits.ttft_ms, limits.tpot_ms) if limits else (None, None)
    curves = (
        ("latency", "Latency", timeline.latency_ms, None, said.latency_ms),
        ("ttft", "Time to first token (TTFT)", timeline.ttft_ms, ttft_limit, said.ttft_ms),
        ("tpot", "Time per output token (TPOT)", timeline.tpot_ms, tpot_limit, said.tpot_ms),
    )
    plots = [
        Plot(
            name,
            f"{title}: the share of requests that took at most this long.",
            partial(_cumulative, title, values, limit, (named or {}).get("p99")),
        )
        for name, title, values, limit, named in curves
        if values
    ]
    source = (
        "as the engine generated them" if timeline.made_ms else "counted when their request ended"
    )
    if len(timeline.made_so_far()[0]) > 1:
        caption = f"Output tokens per second over the run, {source}."
        plots.append(Plot("tokens_per_s", caption, partial(_rate, timeline)))
    if timeline.parts_ms:
        caption = "Where the requests' time went: the mean of those that ended then, by part."
        plots.append(Plot("life", caption, partial(_life, timeline)))
    if len(timeline.running) > 1:
        caption = "Requests in a step of the engine and waiting for one, and the KV cache in use."
        plots.append(Plot("batch", caption, partial(_batch, timeline)))
    return plots


def _unit(values: Sequence[float], limit: float | None) -> tuple[float, str]:
    largest = max(*values, limit or 0.0, 0.0)
    return (1000.0, "s") if largest >= 10_000 else (1.0, "ms")


def _cumulative(
    title: str,
    values: Sequence[float],
    limit: float | None,
    p99_ms: float | None,
    axes: Any,
    ink: str,
) -> None:
    scale, unit = _unit(values, limit)
    found = np.sort(np.asarray(values)) / scale
    share = np.arange(1, len(found) + 1) / len(found) * 100
    kept = np.unique(np.linspace(0, len(found) - 1, _MOST_POINTS).astype(int))
    axes.plot(found[kept], share[kept], color=BLUE, label="requests", drawstyle="steps-post")
    p99 = percentile(found.tolist(), 0.99) if p99_ms is None else p99_ms / scale
    axes.plot([p99], [99], "o", color=BLUE, label=f"p99 {p99:,.4g} {unit}")
    if limit is not None:
        shown = limit / scale
        label = f"MLPerf's limit {shown:,g} {unit} at p99"
        axes.axvline(shown, color=ORANGE, linestyle="--", label=label)
        axes.axhline(99, color=ORANGE, linestyle=":", linewidth=1)
    axes.set(
        title=title,
        xlabel=f"{title.split(' (', maxsplit=1)[0].lower()}, {unit}",
        ylabel="requests, %",
    )
    axes.set_ylim(0, 102)
    # If all requests took equally long, the default margin is too thin to show the curve's end.
    axes.set_xlim(0, 1.05 * max(found[-1], (limit or 0.0) / scale) or None)
    axes.legend(loc="best", fontsize=9)


def _rate(timeline: Timeline, axes: Any, ink: str) -> None:
    times, made = timeline.made_so_far()
    seconds, tokens = np.asarray([0.0, *times]) / 1000, np.asarray([0, *made])
    edges = np.linspace(0, seconds[-1], min(_RATE_WINDOWS, max(len(times) // 2, 2)) + 1)
    rates = np.diff(np.interp(edges, seconds, tokens)) / np.diff(edges)
    axes.stairs(rates, edges, color=BLUE, label="tokens/s", baseline=None)
    mean = tokens[-1] / seconds[-1]
    axes.axhline(mean, color=ORANGE, linestyle="--", label=f"mean {mean:,.4g}")
    axes.set(title="Output over time", xlabel="time since the start, s", ylabel="tokens/s")
    axes.set_ylim(0, max(rates) * 1.25)
    axes.set_xlim(left=0)
    axes.legend(loc="upper right", ncols=2, fontsize=9)


def _life(timeline: Timeline, axes: Any, ink: str) -> None:
    """Bars over time; each stands for the same number of requests, its height is their mean
    latency."""
    ends = np.asarray(timeline.finished_ms) / 1000
    rows = np.array_split(np.arange(len(ends)), min(_LIFE_BARS, len(ends)))
    edges = np.array([0.0, *(ends[group[-1]] for group in rows)])
    widths, bottom = np.diff(edges), np.zeros(len(rows))
    means = {
        name: np.array([np.asarray(of)[group].mean() for group in rows])
        for name, of in timeline.parts_ms.items()
    }
    scale, unit = _unit([float(v) for v in sum(means.values(), np.zeros(len(rows)))], None)
    for number, (name, mean) in enumerate(means.items()):
        colour, hatch = _LIFE_STYLES[number % len(_LIFE_STYLES)]
        axes.bar(
            edges[:-1],
            mean / scale,
            widths,
            bottom,
            align="edge",
            label=name,
            color=colour,
            hatch=hatch,
            edgecolor=_GRID,
            linewidth=0,
        )
        bottom = bottom + mean / scale
    axes.set(
        title="Where the time goes",
        xlabel="time of the answer since the start, s",
        ylabel=f"time of a request, {unit}",
    )
    axes.set_xlim(0, edges[-1] or None)
    axes.set_ylim(0, (float(bottom.max()) or 1.0) * 1.4)
    axes.legend(loc="upper left", ncols=3, fontsize=8)


def _batch(timeline: Timeline, axes: Any, ink: str) -> None:
    groups = np.array_split(np.arange(len(timeline.running)), _BATCH_POINTS)
    rows = [group for group in groups if len(group)]
    seconds, running, waiting, kv_share = (
        np.array([np.asarray(column)[group].mean() for group in rows])
        for column in (timeline.made_ms, timeline.running, timeline.waiting, timeline.kv_share)
    )
    seconds = seconds / 1000
    axes.plot(seconds, running, color=BLUE, label="in a step")
    axes.plot(seconds, waiting, color=ORANGE, linestyle="--", label="waiting")
    axes.set(title="Batch and KV cache", xlabel="time since the start, s", ylabel="requests")
    axes.set_xlim(left=0)
    axes.set_ylim(0, max(float(running.max()), float(waiting.max()), 1.0) * 1.3)
    share = axes.twinx()
    share.plot(seconds, kv_share * 100, ":", color=GREEN, linewidth=2.2, label="KV cache, %")
    share.set_ylim(0, 130)
    share.set_yticks(range(0, 101, 25))
    share.set_ylabel("KV cache, %")
    share.spines["right"].set_visible(True)
    lines = [*axes.get_lines(), *share.get_lines()]
    axes.legend(handles=lines, loc="upper center", ncols=3, fontsize=8)
