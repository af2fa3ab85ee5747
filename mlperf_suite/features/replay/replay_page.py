"""The page of a replay of recorded sessions: times by turn and by context, KV reuse, score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mlperf_suite.engines.protocol import ServerView
from mlperf_suite.features.servers.report import server_view_cells
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.plots import BLUE, ORANGE
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Paragraph,
    Plot,
    Plots,
    Points,
    Section,
    Tiles,
    count,
    decimal,
    notes,
    record_table,
    time_cell,
)
from mlperf_suite.results import typed_json
from mlperf_suite.rules.verdict import in_words

_TIMES = {"TTFT": "ttft_ms", "TPOT": "tpot_ms", "latency": "latency_ms"}
_MAX_LISTED_TURNS = 50
_NO_METRICS = "The server has no metrics, or the replay was over before they were read."
_CACHED_SHARE = 0.5
_CACHED_NOTE = (
    f"Orange: at least {_CACHED_SHARE:.0%} of the prompt came from the server's cache, as far "
    "as it reports that."
)


def replay_page(summary: Mapping[str, Any], lines: Sequence[str]) -> str:
    """The page as HTML. `summary`: as `replay_summary` makes it; `lines`: what it amounts to."""
    title = "Replay of recorded sessions"
    by_context = _plots(summary, "context", "context_tokens", "context, tokens", _CACHED_NOTE)
    by_turn = _plots(summary, "turn", "position", "turn of the conversation")
    sections = [
        Section(title, [*_answer(summary, lines), _tiles(summary)], level=1),
        Section("Times by context length", [by_context, *_table(summary, "by_context")]),
        Section("Times by turn", [by_turn, *_table(summary, "by_turn")]),
        Section("The server's own view", _server(summary)),
    ]
    missing = [turn for turn in summary["per_turn"] if turn["failure"]]
    if missing:
        sections.append(Section(f"Missing: {count(len(missing), 'turn')}", [_missing(missing)]))
    return html_page(sections, title=title)


def _answer(summary: Mapping[str, Any], lines: Sequence[str]) -> list[Block]:
    mark = " of a stand-in server: no measurement" if summary["stand_in"] else ""
    delays = "kept" if summary["tool_delays"] else "dropped"
    return [
        *[Paragraph(line) for line in lines],
        *notes(
            [
                f"{in_words(summary['server'])}{mark}; {summary['conversations']} of "
                f"{summary['recorded_conversations']} conversations; delays of tools {delays}; "
                f"turn time-out {summary['turn_timeout_s']:g} s; "
                + ("a salt for each conversation" if summary["salted"] else "no salt")
            ]
        ),
    ]


def _tiles(summary: Mapping[str, Any]) -> Tiles:
    times = summary["all"]
    rows = [("turns", f"{summary['turns']:,}"), ("missing", f"{summary['missing']:,}")]
    for name, key in _TIMES.items():
        if key in times:
            rows += [(f"{name} {p}", time_cell(times[key][p])) for p in ("p50", "p90")]
    return Tiles(rows)


def _table(summary: Mapping[str, Any], group: str) -> list[Block]:
    words = {"by_context": "context, tokens", "by_turn": "turns of a conversation"}
    records: list[dict[str, Cell]] = []
    for name, times in summary[group].items():
        record: dict[str, Cell] = {words[group]: name, "count": f"{times['turns']:,}"}
        for word, key in _TIMES.items():
            for p in ("p50", "p90", "p99"):
                record[f"{word} {p}"] = time_cell(times.get(key, {}).get(p))
        records.append(record)
    return [*record_table(records, [words[group]])]


def _plots(summary: Mapping[str, Any], name: str, over: str, label: str, note: str = "") -> Plots:
    draw = partial(_scatter, summary["per_turn"], over, label)
    plots = [
        Plot(f"ttft-{name}", "TTFT of each turn", partial(draw, "ttft_ms")),
        Plot(f"tpot-{name}", "Time per token of each turn", partial(draw, "tpot_ms")),
    ]
    return Plots(plots, note=note)


def _scatter(
    turns: Sequence[Mapping[str, Any]], over: str, label: str, key: str, axes: Any, ink: str
) -> None:
    for is_cached, colour in ((False, BLUE), (True, ORANGE)):
        points = [
            (turn[over], turn[key])
            for turn in turns
            if None not in (turn[over], turn[key]) and _is_cached(turn) == is_cached
        ]
        if points:
            axes.plot(*zip(*points, strict=True), ".", color=colour, markersize=4, alpha=0.7)
    axes.set(xlabel=label, ylabel=f"{key.removesuffix('_ms').upper()}, ms", ylim=(0, None))
    axes.set_xlim(0, None)


def _is_cached(turn: Mapping[str, Any]) -> bool:
    cached, prompt = turn["cached_tokens"], turn["context_tokens"]
    return bool(cached and prompt) and cached >= _CACHED_SHARE * prompt


def _server(summary: Mapping[str, Any]) -> list[Block]:
    view = typed_json.read(ServerView, summary["server_view"])
    if view is None:
        return [*notes([_NO_METRICS])]
    readings = f"Its metrics, read each second: {decimal(view.readings, 0)} readings."
    return [*notes([readings]), *record_table([server_view_cells(view)])]


def _missing(turns: Sequence[Mapping[str, Any]]) -> Points:
    lines = [
        f"{in_words(turn['conversation'])}, turn {turn['position']}: {in_words(turn['failure'])}"
        for turn in turns[:_MAX_LISTED_TURNS]
    ]
    more = len(turns) - len(lines)
    return Points([*lines, *([f"and {more:,} more"] if more else [])])
