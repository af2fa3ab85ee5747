"""The page of a replayed trace: its label, times, arrivals and answers over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mlperf_suite.engines.protocol import ServerView
from mlperf_suite.features.replay.started import how_started
from mlperf_suite.features.servers.report import server_view_cells
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.performance_sections import times_words
from mlperf_suite.reports.plots import BLUE, GREEN, ORANGE
from mlperf_suite.reports.sections import (
    Block,
    Paragraph,
    Plot,
    Plots,
    Section,
    Table,
    Tiles,
    columns,
    count,
    decimal,
    duration,
    notes,
    percentage,
    record_table,
    time_cell,
)
from mlperf_suite.results import typed_json
from mlperf_suite.rules.verdict import in_words

_TIMES = {"TTFT": "ttft_ms", "TPOT": "tpot_ms", "latency": "latency_ms", "sent late": "late_ms"}


def trace_lines(summary: Mapping[str, Any]) -> list[str]:
    """The summary as lines of text, the mark first."""
    lines = [summary["mark"], _rate_words(summary)]
    for name, key in _TIMES.items():
        if times := summary[key]:
            lines.append(f"{name}: {times_words({p: times[p] for p in ('p50', 'p90', 'p99')})}")
    return [*lines, *_remarks(summary)]


def _rate_words(summary: Mapping[str, Any]) -> str:
    return (
        f"{summary['answered']:,} of {summary['requests']:,} requests answered in "
        f"{duration(summary['duration_s'])}: {summary['tokens_per_s']:,.1f} tokens/s, "
        f"{summary['requests_per_s']:,.2f} requests/s"
    )


def _remarks(summary: Mapping[str, Any]) -> list[str]:
    """Notes on the figures, a line each."""
    lines = []
    if summary["stand_in"]:
        lines.append("a stand-in server: no measurement")
    if summary["ended"]:
        lines.append(f"ended early: {in_words(summary['ended'])}")
    lines += [f"{n:,} failed: {in_words(why)}" for why, n in summary["failures"].items()]
    limits = "; ".join(summary["client_limits"])
    kept = "the client did not limit the run" if summary["sent"] else "nothing was sent"
    lines.append(f"client-bound: {limits}" if limits else kept)
    if held := summary["held_back"]:
        lines.append(f"TTFT and TPOT are not the server's: {held}")
    lines += summary["departures"]
    if summary["left_out"]:
        lines.append(
            f"left out: {count(summary['left_out'], 'request')} longer than the server's context "
            f"of {summary['context']:,} tokens"
        )
    lines += [*summary["notes"], _cache_words(summary)]
    if good := summary["goodput"]:
        lines.append(_goodput_words(good))
    return lines


def _cache_words(summary: Mapping[str, Any]) -> str:
    cached = summary["cached_tokens"]
    prompt, shared = summary["prompt_tokens"], summary["shared_tokens"]
    seen = "not reported" if cached is None else f"{cached:,} of {prompt:,}"
    recorded = "no shared prefixes" if shared is None else f"{shared:,} in shared prefixes"
    return f"prompt tokens from a cache: {seen}; the trace has {recorded}"


def _goodput_words(good: Mapping[str, Any]) -> str:
    limits = [
        f"{name} {time_cell(good[key])}"
        for name, key in (("TTFT", "ttft_limit_ms"), ("TPOT", "tpot_limit_ms"))
        if good[key] is not None
    ]
    share = good["within"] / good["requests"] if good["requests"] else 0.0
    return (
        f"goodput: {good['samples_per_sec']:,.2f} requests/s, {percentage(share)} of the answered "
        f"within {' and '.join(limits)}"
    )


def trace_page(summary: Mapping[str, Any]) -> str:
    """The page as HTML. `summary`: as `trace_summary` makes it."""
    title = f"Replay of {in_words(summary['trace'])}"
    mark, speed = summary["mark"], summary["speed"]
    answer: list[Block] = [Paragraph(f"{mark[:1].upper()}{mark[1:]}.", style="open")]
    answer += [Paragraph(line) for line in (_rate_words(summary), *_remarks(summary))]
    times = "at the recorded speed" if speed == 1 else f"{speed:g} times as fast as recorded"
    answer += notes([f"{in_words(summary['server'])}; {summary['kind']}'s format, {times}."])
    sections = [
        Section(title, [*answer, _tiles(summary)], level=1),
        Section("Times", [_times(summary)]),
        Section("Over time", [*_plots(summary), *_over_time(summary)]),
        Section("The server's own view", _server(summary)),
        *how_started(summary),
    ]
    return html_page(sections, title=f"{title}: {mark}")


def _tiles(summary: Mapping[str, Any]) -> Tiles:
    rows = [
        ("tokens/s", decimal(summary["tokens_per_s"], 1)),
        ("requests/s", decimal(summary["requests_per_s"])),
        ("failed", f"{summary['failed']:,}"),
    ]
    rows += [(f"{n} p99", time_cell(summary[k]["p99"])) for n, k in _TIMES.items() if summary[k]]
    return Tiles(rows)


def _times(summary: Mapping[str, Any]) -> Table:
    names = list(summary["latency_ms"])
    rows = [
        [name, *(time_cell(summary[key].get(p)) for p in names)] for name, key in _TIMES.items()
    ]
    note = (
        'TTFT and latency count from when a request was sent; "sent late" is how long after its '
        "time in the trace that was."
    )
    return Table(columns([""], names), rows, style="broad", note=note)


def _plots(summary: Mapping[str, Any]) -> list[Block]:
    windows = summary["windows"]
    if not windows:
        return []
    draw = partial(_draw, windows, summary["mark"])
    return [Plots([Plot("trace", "By the time in the trace at which requests were due.", draw, 3)])]


def _draw(windows: Sequence[Mapping[str, Any]], mark: str, panels: Any, ink: str) -> None:
    rates, times, tokens = panels
    at = [row["from_s"] for row in windows]

    def column(name: str) -> list[float]:
        return [np.nan if row[name] is None else row[name] for row in windows]

    rates.set_title(mark.upper(), fontsize=7, loc="left")
    rates.step(at, column("due_per_s"), where="post", color=BLUE, label="due")
    rates.step(at, column("answered_per_s"), where="post", color=GREEN, label="answered")
    if any(row["within"] not in (None, 1) for row in windows):
        good = [(row["within"] or 0.0) * (row["due_per_s"] or 0.0) for row in windows]
        rates.step(at, good, where="post", color=ORANGE, label="due, within the limits")
    rates.set(ylabel="requests/s", ylim=(0, None))
    times.step(at, column("ttft_p50_ms"), where="post", color=BLUE, label="TTFT p50")
    times.step(at, column("ttft_p99_ms"), where="post", color=ORANGE, label="TTFT p99")
    times.set(ylabel="ms", ylim=(0, None))
    tokens.step(at, column("tokens_per_s"), where="post", color=GREEN)
    tokens.set(xlabel="s", ylabel="tokens/s", ylim=(0, None))
    for axes in (rates, times):
        axes.legend(fontsize=8, loc="best")


def _over_time(summary: Mapping[str, Any]) -> list[Table]:
    records = [
        {
            "from": duration(row["from_s"]),
            "due/s": decimal(row["due_per_s"]),
            "answered/s": decimal(row["answered_per_s"]),
            "tokens/s": decimal(row["tokens_per_s"], 1),
            "TTFT p50": time_cell(row["ttft_p50_ms"]),
            "TTFT p99": time_cell(row["ttft_p99_ms"]),
            "TPOT p99": time_cell(row["tpot_p99_ms"]),
            "sent late p99": time_cell(row["late_p99_ms"]),
            **({"within limits": percentage(row["within"])} if summary["goodput"] else {}),
        }
        for row in summary["windows"]
    ]
    return record_table(records, ["from"], title="Parts of the run", folded=True)


def _server(summary: Mapping[str, Any]) -> list[Block]:
    views = [typed_json.read(ServerView, view) for view in summary["server_view"]]
    rows = [server_view_cells(view) for view in views if view is not None]
    if not rows:
        return [*notes(["The server has no metrics, or the run was over before they were read."])]
    return [*record_table(rows)]
