"""A run over time: its output, where the time of its requests goes, and the engine's batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE, titled
from mlperf_suite.reports.sections import GRID, Plot, significant
from mlperf_suite.rules.verdict import times_in_unit

RUN_SIZE = 3.6, 3.9
"""Of each plot of a run, in inches: a third of a page's width, or the whole of a phone's."""
_RATE_WINDOWS = 60
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


def time_scale(values_ms: Sequence[float]) -> tuple[float, str]:
    """What these times are divided by to be in the unit that fits them, and that unit."""
    _, unit = times_in_unit(values_ms)
    return (1000.0 if unit == "s" else 1.0), unit


def plots_over_time(timeline: Timeline, below: Sequence[Plot] = ()) -> list[Plot]:
    """Every plot over time for which the run's timeline has data. `below`: drawn under the
    throughput."""
    plots: list[Plot] = []
    source = (
        "as the engine generated them" if timeline.made_ms else "counted when their request ended"
    )
    times, _ = timeline.made_so_far()
    if len(times) > 1 and times[-1] > 0:
        rate = Plot(
            "tokens_per_s",
            f"Output tokens per second over the run, {source}.",
            partial(_rate, timeline),
            size=RUN_SIZE,
        )
        if below:
            caption = " ".join([rate.caption, *(f"Below, {plot.caption}" for plot in below)])
            draw = partial(_rate_above, timeline, below)
            rate = replace(rate, caption=caption, draw=draw, panels=1 + len(below))
        plots.append(rate)
    if timeline.parts_ms:
        caption = "Mean time per part of the requests that finished then."
        plots.append(Plot("life", caption, partial(_life, timeline), size=RUN_SIZE))
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
        plots.append(Plot("batch", caption, partial(_batch, timeline), 2, size=RUN_SIZE))
    return plots


def _rate(timeline: Timeline, axes: Any, ink: str) -> None:
    times, totals = timeline.made_so_far()
    seconds, tokens = np.asarray([0.0, *times]) / 1000, np.asarray([0, *totals])
    edges = np.linspace(0, seconds[-1], min(_RATE_WINDOWS, max(len(times) // 2, 2)) + 1)
    rates = np.diff(np.interp(edges, seconds, tokens)) / np.diff(edges)
    axes.stairs(rates, edges, color=BLUE, label="tokens/s", baseline=None)
    mean = tokens[-1] / seconds[-1]
    axes.axhline(mean, color=ORANGE, linestyle="--", label=f"mean {significant(mean)}")
    axes.set(xlabel="time since the start, s", ylabel="tokens/s")
    axes.set(ylim=(0, max(rates) * 1.05), xlim=(0, None))
    titled(axes, "Output over time")


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
    scale, unit = time_scale([float(v) for v in sum(means.values(), np.zeros(len(rows)))])
    for number, (name, mean) in enumerate(means.items()):
        colour, hatch = _LIFE_STYLES[number % len(_LIFE_STYLES)]
        look = {"color": colour, "hatch": hatch, "edgecolor": GRID, "linewidth": 0}
        axes.bar(edges[:-1], mean / scale, widths, bottom, align="edge", label=name, **look)
        bottom = bottom + mean / scale
    axes.set(
        xlabel="time of the answer since the start, s",
        ylabel=f"time of a request, {unit}",
        xlim=(0, edges[-1] or None),
        ylim=(0, (float(bottom.max()) or 1.0) * 1.05),
    )
    titled(axes, "Where the time goes")


def _batch(timeline: Timeline, panels: Any, ink: str) -> None:
    groups = np.array_split(np.arange(len(timeline.running)), _BATCH_POINTS)
    rows = [group for group in groups if len(group)]
    seconds, running, queue, kv_share = (
        np.array([np.asarray(column)[group].mean() for group in rows])
        for column in (timeline.made_ms, timeline.running, timeline.waiting, timeline.kv_share)
    )
    seconds = seconds / 1000
    requests, cache = panels
    requests.plot(seconds, running, color=BLUE, label="in a step")
    requests.plot(seconds, queue, color=ORANGE, linestyle="--", label="waiting")
    most = max(float(running.max()), float(queue.max()), 1.0)
    requests.set(ylabel="requests", ylim=(0, most * 1.05))
    cache.plot(seconds, kv_share * 100, color=GREEN, label="KV cache")
    cache.set(ylim=(0, 105), yticks=range(0, 101, 25), ylabel="KV cache, %")
    cache.set(xlabel="time since the start, s", xlim=(0, None))
    titled(requests, "Batch and KV cache")
    titled(cache)
