"""The command's replay of recorded agent sessions: the server, the figures and their page."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.features.chats.agent_replay import (
    TURN_TIMEOUT_S,
    CacheReuse,
    TurnFigures,
    replay,
    replay_summary,
)
from mlperf_suite.features.chats.agent_sessions import RecordedSession, read_sessions
from mlperf_suite.features.chats.chat_client import ChatClient
from mlperf_suite.features.replay.replay_page import replay_page
from mlperf_suite.features.servers.config import EndpointConfig, parse_endpoint
from mlperf_suite.features.servers.server_facts import ServerFacts, find_out, metrics
from mlperf_suite.features.servers.server_metrics import HITS, ServerWatch
from mlperf_suite.results.run_folder import write_whole

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
    write_whole(request.out, json.dumps(summary, indent=2) + "\n")
    say("\n".join(replay_lines(summary)))
    page = request.out.with_suffix(".html")
    write_whole(page, replay_page(summary, replay_lines(summary)[:3]))
    say(f"{request.out}\n{page}")
    return not summary["missing"]


def asked_server(endpoint: str, model: str) -> tuple[EndpointConfig, ServerFacts]:
    """How to reach a chat server, with the key of API_KEY, and what it is. Raises UsageError."""
    target, key = parse_endpoint(endpoint), os.environ.get("API_KEY")
    config = EndpointConfig((target,), model, None, 0, served_model=model, key=key)
    return config, find_out(config, target)


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
