"""The command's replay of recorded agent sessions: the server, the figures and their page."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mlperf_suite.engines.protocol import ServerView
from mlperf_suite.features.chats.agent_replay import (
    TURN_TIMEOUT_S,
    CacheReuse,
    TurnFigures,
    replay,
    replay_summary,
)
from mlperf_suite.features.chats.agent_sessions import RecordedSession, read_sessions
from mlperf_suite.features.chats.chat_client import ChatClient
from mlperf_suite.features.replay.started import how_started, started_by
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.report import server_view_cells
from mlperf_suite.features.servers.server_facts import (
    ServerFacts,
    check_reachable,
    find_server_facts,
    metrics,
)
from mlperf_suite.features.servers.server_metrics import HITS, ServerWatch
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
from mlperf_suite.results.run_folder import write_whole
from mlperf_suite.rules.verdict import in_words

_SALTED = ("vllm", "sglang")
"""The kinds of servers whose chat completions have the field `cache_salt`."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What to replay where. `out`: the JSON file for the figures; `limit`: the first so many
    conversations alone."""

    sessions: Path
    endpoint: str
    model: str
    out: Path
    delays: bool = False
    timeout_s: float = TURN_TIMEOUT_S
    limit: int | None = None


def run_replay(request: ReplayRequest, say: Callable[[str], None]) -> bool:
    """Replay, write the figures and a page of them, and say them; whether every turn was answered.

    Raises UsageError if the server cannot be reached or refuses the key.
    """
    recorded = read_sessions(request.sessions)
    sessions = recorded[: request.limit]
    turns = sum(len(session.turns) for session in sessions)
    say(f"{len(sessions)} of {len(recorded)} conversations, {turns} turns")
    summary = _measured(request, sessions, say)
    summary |= {"conversations": len(sessions), "recorded_conversations": len(recorded)}
    summary |= {"tool_delays": request.delays, "turn_timeout_s": request.timeout_s}
    summary |= started_by()
    write_whole(request.out, json.dumps(summary, indent=2) + "\n")
    say("\n".join(replay_lines(summary)))
    page = request.out.with_suffix(".html")
    write_whole(page, replay_page(summary, replay_lines(summary)[: 3 + bool(summary["held_back"])]))
    say(f"{request.out}\n{page}")
    return not summary["missing"]


def asked_server(endpoint: str, model: str) -> tuple[EndpointConfig, ServerFacts]:
    """How to reach a chat server, with the key of API_KEY, and what it is.

    Raises UsageError, also if it refuses the model.
    """
    target, key = parse_endpoint(endpoint), os.environ.get("API_KEY")
    config = EndpointConfig((target,), model, None, 0, served_model=model, key=key, chat=True)
    check_reachable(config)
    return config, find_server_facts(config, target)


def _measured(
    request: ReplayRequest, sessions: Sequence[RecordedSession], say: Callable[[str], None]
) -> dict[str, Any]:
    """The figures of a replay, with what the server is and says of it."""
    config, server = asked_server(request.endpoint, request.model)
    with ServerWatch(lambda: metrics(config, server.target, server.kind)) as watch:
        figures = asyncio.run(_replay_on_server(request, sessions, config, server, watch, say))
        view = watch.view()
    summary = replay_summary(figures)
    return summary | {
        "server": f"{server.name} {server.version}".rstrip(),
        "stand_in": server.stand_in,
        "salted": server.kind in _SALTED,
        "server_view": None if view is None else asdict(view),
    }


async def _replay_on_server(
    request: ReplayRequest,
    sessions: Sequence[RecordedSession],
    config: EndpointConfig,
    server: ServerFacts,
    watch: ServerWatch,
    say: Callable[[str], None],
) -> list[TurnFigures]:
    # Only vLLM knows the field for token ids.
    is_vllm = server.kind == "vllm"
    client = ChatClient(server.target, request.model, key=config.key, token_ids=is_vllm)

    def progress(turn: TurnFigures) -> None:
        if turn.failure:
            say(f"{turn.conversation}, turn {turn.position}: {turn.failure}")

    with closing(client):
        return await replay(
            client,
            sessions,
            delays=request.delays,
            timeout_s=request.timeout_s,
            salted=server.kind in _SALTED,
            cached=lambda: watch.counted(HITS),
            progress=progress,
        )


def replay_lines(summary: dict[str, Any]) -> list[str]:
    """The summary as lines of text."""
    score = "none" if summary["score"] is None else f"{summary['score']:.4f}"
    lines = [
        f"turns: {summary['turns']}, missing: {summary['missing']}",
        f"inline score: {score} of {summary['scored']} turns "
        f"(reference run: {summary['reference_score']}); not judged here",
        CacheReuse(**summary["cache_reuse"]).words(),
        *filter(None, [summary["held_back"]]),
        _line("all turns", summary["all"]),
    ]
    lines += [_line(f"turns {name}", times) for name, times in summary["by_turn"].items()]
    contexts = summary["by_context"].items()
    return lines + [_line(f"context {name} tokens", times) for name, times in contexts]


def _line(name: str, times: dict[str, Any]) -> str:
    parts = [
        f"{word} {times[key]['p50']:,.1f} / {times[key]['p90']:,.1f}"
        for word, key in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"))
        if key in times
    ]
    return f"{name} ({times['turns']}): {', '.join(parts) or 'no times'} ms (p50 / p90)"


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
    sections += how_started(summary)
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
