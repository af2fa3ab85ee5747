"""The plots of reports.

Colours are Okabe and Ito's, which colour-blind readers can distinguish, and no line is identified
by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mlperf_suite.benchmarks.definition import Scenario
from mlperf_suite.benchmarks.percentile import percentile
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.reports.sections import GRID, Plot, decimal, significant
from mlperf_suite.results.schema import PerformanceFigures
from mlperf_suite.rules.verdict import in_words, times_in_unit

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
_RATE_WINDOWS = 60
_MAX_POINTS = 500
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


# The curves of a run: its requests as in timeline.json


def plots_of(
    timeline: Timeline | None,
    scenario: Scenario | None,
    performance: PerformanceFigures | None = None,
    below: Sequence[Plot] = (),
) -> list[Plot]:
    """Every plot for which the run's timeline has data.

    `performance`: LoadGen's own figures, whose percentiles are named beside the curves, as in the
    report's table. `below`: drawn under the throughput.
    """
    if timeline is None:
        return []
    table = performance or PerformanceFigures()
    limits = scenario.limits if scenario else {}
    curves = (
        ("latency", "Latency", timeline.latency_ms, table.latency_ms),
        ("ttft", "Time to first token (TTFT)", timeline.ttft_ms, table.ttft_ms),
        ("tpot", "Time per output token (TPOT)", timeline.tpot_ms, table.tpot_ms),
    )
    plots = [
        Plot(
            name,
            f"{title}: the share of requests that took at most this long.",
            partial(_cumulative, title, values, limits.get(name), (percentiles or {}).get("p99")),
        )
        for name, title, values, percentiles in curves
        if values
    ]
    source = (
        "as the engine generated them" if timeline.made_ms else "counted when their request ended"
    )
    times, _ = timeline.made_so_far()
    if len(times) > 1 and times[-1] > 0:
        rate = Plot(
            "tokens_per_s",
            f"Output tokens per second over the run, {source}.",
            partial(_rate, timeline),
        )
        if below:
            caption = " ".join([rate.caption, *(f"Below, {plot.caption}" for plot in below)])
            draw = partial(_rate_above, timeline, below)
            rate = Plot(rate.name, caption, draw, panels=1 + len(below))
        plots.append(rate)
    if timeline.parts_ms:
        caption = "Mean time per part of the requests that finished then."
        plots.append(Plot("life", caption, partial(_life, timeline)))
    if len(timeline.running) > 1:
        caption = "Requests that the engine processed or queued, and the KV cache in use."
        if timeline.load is not None and timeline.load.replicas > 1:
            # Each row is a step of one of them.
            caption = (
                f"Mean of the {timeline.load.replicas:,} replicas: requests that one processed or "
                "queued, and its KV cache in use."
            )
        if timeline.load is None:
            caption = (
                "Requests that the servers processed or queued, and their KV caches in use, from "
                "their own metrics."
            )
        plots.append(Plot("batch", caption, partial(_batch, timeline)))
    return plots


def _unit(values: Sequence[float], limit: float | None) -> tuple[float, str]:
    _, unit = times_in_unit([*values, limit or 0.0])
    return (1000.0 if unit == "s" else 1.0), unit


def _cumulative(
    title: str,
    values: Sequence[float],
    limit: float | None,
    p99_ms: float | None,
    axes: Any,
    ink: str,
) -> None:
    scale, unit = _unit(values, limit)
    times = np.sort(np.asarray(values)) / scale
    share = np.arange(1, len(times) + 1) / len(times) * 100
    points = np.unique(np.linspace(0, len(times) - 1, _MAX_POINTS).astype(int))
    axes.plot(times[points], share[points], color=BLUE, label="requests", drawstyle="steps-post")
    p99 = percentile(times.tolist(), 0.99) if p99_ms is None else p99_ms / scale
    axes.plot([p99], [99], "o", color=BLUE, label=f"p99 {significant(p99)} {unit}")
    if limit is not None:
        place = limit / scale
        label = f"MLPerf's limit {place:,g} {unit} at p99"
        axes.axvline(place, color=ORANGE, linestyle="--", label=label)
        axes.axhline(99, color=ORANGE, linestyle=":", linewidth=1)
    name = title.split(" (", maxsplit=1)[0].lower()
    axes.set(title=title, xlabel=f"{name}, {unit}", ylabel="requests, %", ylim=(0, 102))
    # If all requests took equally long, the default margin is too thin to show the curve's end.
    axes.set_xlim(0, 1.05 * max(times[-1], (limit or 0.0) / scale) or None)
    axes.legend(loc="best", fontsize=9)


def _rate(timeline: Timeline, axes: Any, ink: str) -> None:
    times, totals = timeline.made_so_far()
    seconds, tokens = np.asarray([0.0, *times]) / 1000, np.asarray([0, *totals])
    edges = np.linspace(0, seconds[-1], min(_RATE_WINDOWS, max(len(times) // 2, 2)) + 1)
    rates = np.diff(np.interp(edges, seconds, tokens)) / np.diff(edges)
    axes.stairs(rates, edges, color=BLUE, label="tokens/s", baseline=None)
    mean = tokens[-1] / seconds[-1]
    axes.axhline(mean, color=ORANGE, linestyle="--", label=f"mean {significant(mean)}")
    axes.set(title="Output over time", xlabel="time since the start, s", ylabel="tokens/s")
    axes.set(ylim=(0, max(rates) * 1.25), xlim=(0, None))
    axes.legend(loc="upper right", ncols=2, fontsize=9)


def _rate_above(timeline: Timeline, below: Sequence[Plot], panels: Any, ink: str) -> None:
    first, *rest = panels
    _rate(timeline, first, ink)
    first.set_xlabel("")
    for plot, panel in zip(below, rest, strict=True):
        plot.draw(panel, ink)


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
        look = {"color": colour, "hatch": hatch, "edgecolor": GRID, "linewidth": 0}
        axes.bar(edges[:-1], mean / scale, widths, bottom, align="edge", label=name, **look)
        bottom = bottom + mean / scale
    axes.set(
        title="Where the time goes",
        xlabel="time of the answer since the start, s",
        ylabel=f"time of a request, {unit}",
        xlim=(0, edges[-1] or None),
        ylim=(0, (float(bottom.max()) or 1.0) * 1.4),
    )
    axes.legend(loc="upper left", ncols=3, fontsize=8)


def _batch(timeline: Timeline, axes: Any, ink: str) -> None:
    groups = np.array_split(np.arange(len(timeline.running)), _BATCH_POINTS)
    rows = [group for group in groups if len(group)]
    seconds, running, queue, kv_share = (
        np.array([np.asarray(column)[group].mean() for group in rows])
        for column in (timeline.made_ms, timeline.running, timeline.waiting, timeline.kv_share)
    )
    seconds = seconds / 1000
    axes.plot(seconds, running, color=BLUE, label="in a step")
    axes.plot(seconds, queue, color=ORANGE, linestyle="--", label="waiting")
    axes.set(title="Batch and KV cache", xlabel="time since the start, s", ylabel="requests")
    axes.set(xlim=(0, None), ylim=(0, max(float(running.max()), float(queue.max()), 1.0) * 1.3))
    share = axes.twinx()
    share.plot(seconds, kv_share * 100, ":", color=GREEN, linewidth=2.2, label="KV cache, %")
    share.set(ylim=(0, 130), yticks=range(0, 101, 25), ylabel="KV cache, %")
    share.spines["right"].set_visible(True)
    lines = [*axes.get_lines(), *share.get_lines()]
    axes.legend(handles=lines, loc="upper center", ncols=3, fontsize=8)


# Bars


def draw_bars(
    values: Mapping[str, float | None], colours: Sequence[str], unit: str, axes: Any, ink: str
) -> None:
    """A bar for each name, from the top, with its value in the unit beside it."""
    bars = axes.barh(
        list(map(in_words, values)), [value or 0 for value in values.values()], color=colours
    )
    axes.bar_label(bars, labels=[decimal(value) for value in values.values()], padding=3, color=ink)
    axes.set_xlabel(unit, fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.19)
    axes.grid(visible=False, axis="y")
