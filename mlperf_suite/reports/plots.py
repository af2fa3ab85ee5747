"""The plots of a run: PNG files for its folder, and SVG that takes the colours of its page.

The curves are of the requests as the SUT saw them (timeline.json); LoadGen's own percentiles, which
count, stand in the report's table. Colours are Okabe and Ito's, and no line is told by colour only.
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
from mlperf_suite.loadgen.timeline import Timeline

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
_INK, _GRID = "#101112", "#909192"
"""Stand for the page's own colours in SVG that is put into it."""
_RATE_WINDOWS = 60
_MOST_POINTS = 500


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its file's name, its caption, and what draws it on matplotlib axes.

    `panels`: axes under one another that share their x axis; of more than one `draw` gets all.
    """

    name: str
    caption: str
    draw: Any
    panels: int = 1

    def figure(self, ink: str, grid: str) -> Any:
        """The drawn figure, its text in `ink` and its grid in `grid`."""
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
        """Write it as an image on white."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.figure("black", "#808080").savefig(path, dpi=130, facecolor="white")

    def svg(self) -> str:
        """It as an SVG element whose text, axes and grid have the colour of the text around it."""
        import matplotlib as mpl

        text = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}):
            figure = self.figure(_INK, _GRID)
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        drawn = text.getvalue()
        drawn = drawn[drawn.index("<svg") :]
        return drawn.replace(_INK, "currentColor").replace(_GRID, "currentColor")


def plots_of(timeline: Timeline | None, scenario: Scenario | None) -> list[Plot]:
    """Every plot that a run's timeline has the data for."""
    if timeline is None:
        return []
    limits = scenario.limits if scenario else None
    ttft_limit, tpot_limit = (limits.ttft_ms, limits.tpot_ms) if limits else (None, None)
    curves = (
        ("latency", "Latency", timeline.latency_ms, None),
        ("ttft", "Time to first token (TTFT)", timeline.ttft_ms, ttft_limit),
        ("tpot", "Time per output token (TPOT)", timeline.tpot_ms, tpot_limit),
    )
    plots = [
        Plot(
            name,
            f"{title}: the share of requests that took at most so long.",
            partial(_cumulative, title, values, limit),
        )
        for name, title, values, limit in curves
        if values
    ]
    source = "as the engine made them" if timeline.made_ms else "counted when their request ended"
    if len(timeline.made_so_far()[0]) > 1:
        caption = f"Output tokens per second over the run, {source}."
        plots.append(Plot("tokens_per_s", caption, partial(_rate, timeline)))
    if timeline.phases_ms:
        caption = "Where a request's time goes, as the engine tells it."
        plots.append(Plot("phases", caption, partial(_phases, timeline.phases_ms)))
    return plots


def _unit(values: Sequence[float], limit: float | None) -> tuple[float, str]:
    largest = max(*values, limit or 0.0, 0.0)
    return (1000.0, "s") if largest >= 10_000 else (1.0, "ms")


def _cumulative(
    title: str, values: Sequence[float], limit: float | None, axes: Any, ink: str
) -> None:
    scale, unit = _unit(values, limit)
    found = np.sort(np.asarray(values)) / scale
    share = np.arange(1, len(found) + 1) / len(found) * 100
    kept = np.unique(np.linspace(0, len(found) - 1, _MOST_POINTS).astype(int))
    axes.plot(found[kept], share[kept], color=BLUE, label="requests", drawstyle="steps-post")
    p99 = float(np.percentile(found, 99))
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
    # Where all requests took as long, the data's own margin is too thin to see the curve's end.
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


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _phases(phases_ms: dict[str, tuple[float, ...]], axes: Any, ink: str) -> None:
    scale, unit = _unit([float(np.percentile(v, 99)) for v in phases_ms.values()], None)
    places = np.arange(len(phases_ms))
    for offset, percentile, colour, hatch in ((-0.2, 50, BLUE, ""), (0.2, 99, ORANGE, "//")):
        values = [float(np.percentile(v, percentile)) / scale for v in phases_ms.values()]
        label = f"p{percentile}"
        bars = axes.barh(places + offset, values, 0.36, color=colour, hatch=hatch, label=label)
        axes.bar_label(
            bars, labels=[_three_digits(value) for value in values], padding=3, color=ink
        )
    axes.set_yticks(places, list(phases_ms))
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(title="Where the time goes", xlabel=f"time of a request, {unit}")
    axes.legend(fontsize=9)
