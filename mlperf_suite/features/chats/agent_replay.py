"""The replay of recorded agent sessions on a chat server: figures by turn, and the inline score.

As edge-agentic (qwen3.6-27b, round v6.1) does: one conversation at a time, the recorded answers as
history, temperature 0, seed 42, at most 1,024 tokens, 600 s a turn. A turn without an answer ends
its conversation; the turns left out are missing, and score 0.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.request_times import percentile
from mlperf_suite.engines.protocol import StreamFigures
from mlperf_suite.features.chats.agent_sessions import RecordedSession, RecordedTurn
from mlperf_suite.features.chats.bash_calls import programs_of, similarity
from mlperf_suite.features.chats.chat import ChatRequest
from mlperf_suite.features.chats.chat_client import ChatServer, ChatTurn
from mlperf_suite.features.servers.streams import StreamAccount
from mlperf_suite.rules.limits import held_back

REFERENCE_SCORE = 0.6335
"""Of the reference run, from 0 to 1 (examples/11_Edge_Agentic_Example/README.md)."""
SAMPLING = Generation(max_new_tokens=1024)
TURN_TIMEOUT_S = 600.0
_SMOKE_TIMEOUT_S = 60.0
_SALT_BYTES = 8
_CONTEXTS = (2_048, 4_096, 8_192, 16_384, 32_768)
"""Upper ends of the context lengths by which figures are grouped, in tokens."""


def turn_timeout_s(*, smoke: bool) -> float:
    """How long a turn may take in a session, in s."""
    return _SMOKE_TIMEOUT_S if smoke else TURN_TIMEOUT_S


CachedTokens = Callable[[], float | None]
"""How many prompt tokens a server has taken from its cache so far; None if it does not say."""


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """One recorded turn. `position`: from 1 in its conversation. `score` is None where the
    recorded answer starts no program that counts. `failure`: why it has no answer.
    `resent`, `first_tokens`: as in `ChatTurn`."""

    conversation: str
    position: int
    failure: str = ""
    context_tokens: int | None = None
    cached_tokens: int | None = None
    tokens: int | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    latency_ms: float | None = None
    finish_reason: str | None = None
    count_mismatch: str = ""
    score: float | None = None
    resent: bool = False
    first_tokens: int | None = None


async def replay(
    server: ChatServer,
    sessions: Iterable[RecordedSession],
    *,
    delays: bool = False,
    timeout_s: float = TURN_TIMEOUT_S,
    sampling: Generation = SAMPLING,
    salted: bool = False,
    cached: CachedTokens = lambda: None,
    progress: Callable[[TurnFigures], None] = lambda turn: None,
) -> list[TurnFigures]:
    """Ask each turn of each session, one after another. `delays`: wait as long as the recorded
    tools took. `salted`: send a salt with each conversation, so that the server may reuse its KV
    cache within it alone. `cached`: asked after each turn that does not report its own."""
    figures: list[TurnFigures] = []
    before = cached()
    for session in sessions:
        lost, salt = "", secrets.token_hex(_SALT_BYTES) if salted else ""
        for position, (turn, messages) in enumerate(session.prompts(), 1):
            if not lost:
                await asyncio.sleep(turn.delay_s if delays else 0)
                answer = await server.ask(
                    ChatRequest(messages, sampling, session.tools, timeout_s, salt)
                )
                figure = answered_turn(session.name, position, turn, answer)
                if figure.cached_tokens is None and before is not None:
                    before, figure = _counted(figure, before, cached())
                figures.append(figure)
                lost = answer.failure and f"not asked, since turn {position} has no answer"
                progress(figures[-1])
            else:
                figures.append(_missing(session.name, position, turn, lost))
    return figures


def _counted(
    figure: TurnFigures, before: float, now: float | None
) -> tuple[float | None, TurnFigures]:
    """The turn with the cached tokens that the server counted during it, and its count now."""
    if now is None or figure.failure:
        return now, figure
    return now, replace(figure, cached_tokens=round(max(0.0, now - before)))


def _missing(name: str, position: int, turn: RecordedTurn, failure: str) -> TurnFigures:
    wanted = programs_of(turn.answer.get("tool_calls"))
    return TurnFigures(name, position, failure, score=0.0 if wanted else None)


def answered_turn(name: str, position: int, turn: RecordedTurn, asked: ChatTurn) -> TurnFigures:
    """The figures of a turn that was asked, and its score."""
    if asked.failure:
        return _missing(name, position, turn, asked.failure)
    wanted = programs_of(turn.answer.get("tool_calls"))
    given = programs_of([call.as_json() for call in asked.answer.tool_calls])
    return TurnFigures(
        name,
        position,
        context_tokens=asked.answer.prompt_tokens,
        cached_tokens=asked.answer.cached_tokens,
        tokens=asked.tokens,
        ttft_ms=_ms(asked.ttft_s),
        tpot_ms=_ms(asked.tpot_s),
        latency_ms=_ms(asked.latency_s),
        finish_reason=asked.answer.finish_reason,
        count_mismatch=asked.count_mismatch(),
        score=similarity(wanted, given) if wanted else None,
        resent=asked.resent,
        first_tokens=asked.first_tokens,
    )


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else value_s * 1000


@dataclass(frozen=True, slots=True)
class CacheReuse:
    """Prompt tokens from the server's cache: `across` conversations are those of first turns,
    `within` those of later ones, `prompt` all of those turns; None if it does not report them."""

    prompt: int = 0
    within: int | None = None
    across: int | None = None

    def words(self) -> str:
        """Which reuse was seen, and whether it is allowed."""
        if self.within is None or self.across is None:
            return "KV reuse: not judged, the server reports no cached tokens"
        seen = f"within conversations {self.within:,} of {self.prompt:,} prompt tokens"
        if self.across:
            return f"KV reuse: {seen}, across conversations {self.across:,}: not allowed"
        return f"KV reuse: {seen}, across conversations none: as allowed"


def cache_reuse(turns: Sequence[TurnFigures]) -> CacheReuse:
    """The reuse that the turns report; no figure if one of them does not."""
    answered = [turn for turn in turns if not turn.failure]
    if not answered or any(turn.cached_tokens is None for turn in answered):
        return CacheReuse()
    return CacheReuse(
        prompt=sum(turn.context_tokens or 0 for turn in answered),
        within=sum(turn.cached_tokens or 0 for turn in answered if turn.position > 1),
        across=sum(turn.cached_tokens or 0 for turn in answered if turn.position == 1),
    )


def stream_of(turns: Iterable[TurnFigures]) -> StreamFigures | None:
    """How the answers of turns arrived; None if none was streamed."""
    account = StreamAccount()
    for turn in turns:
        if turn.first_tokens and turn.tokens and turn.ttft_ms is not None and turn.latency_ms:
            account.count(turn.tokens, turn.first_tokens, (turn.latency_ms - turn.ttft_ms) / 1000)
    return account.figures()


def replay_summary(turns: Sequence[TurnFigures]) -> dict[str, Any]:
    """The replay's figures as JSON: counts, the score, and times over all turns, by position and
    by context length."""
    scores = [turn.score for turn in turns if turn.score is not None]
    missing = [turn for turn in turns if turn.failure]
    return {
        "turns": len(turns),
        "missing": len(missing),
        "first_failure": missing[0].failure if missing else None,
        "count_mismatches": sum(bool(turn.count_mismatch) for turn in turns),
        "resent": sum(turn.resent for turn in turns),
        "scored": len(scores),
        "score": round(statistics.fmean(scores), 4) if scores else None,
        "reference_score": REFERENCE_SCORE,
        "cache_reuse": asdict(cache_reuse(turns)),
        "held_back": held_back(stream_of(turns)),
        "all": _times(turns),
        "by_turn": _grouped(turns, _turn_group),
        "by_context": _grouped(turns, _context_group),
        "per_turn": [asdict(turn) for turn in turns],
    }


def _times(turns: Sequence[TurnFigures]) -> dict[str, Any]:
    """Counts and percentiles of the turns that have an answer, in ms."""
    times: dict[str, Any] = {"turns": sum(not turn.failure for turn in turns)}
    for name in ("ttft_ms", "tpot_ms", "latency_ms"):
        values = sorted(v for turn in turns if (v := getattr(turn, name)) is not None)
        if values:
            times[name] = {f"p{p}": round(percentile(values, p / 100), 3) for p in (50, 90, 99)}
    return times


def _grouped(
    turns: Sequence[TurnFigures], group: Callable[[TurnFigures], str | None]
) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[TurnFigures]] = {}
    for turn in sorted(turns, key=lambda turn: (turn.context_tokens or 0, turn.position)):
        name = group(turn)
        if name is not None and not turn.failure:
            groups.setdefault(name, []).append(turn)
    return {name: _times(members) for name, members in groups.items()}


def _turn_group(turn: TurnFigures) -> str:
    """1, 2 to 10, 11 to 20 and so on: the first turn of a conversation finds no cache."""
    if turn.position == 1:
        return "1"
    low = (turn.position - 1) // 10 * 10
    return f"{max(2, low + 1)} to {low + 10}"


def _context_group(turn: TurnFigures) -> str | None:
    if turn.context_tokens is None:
        return None
    ends = [end for end in _CONTEXTS if turn.context_tokens <= end]
    return f"up to {ends[0]:,}" if ends else f"above {_CONTEXTS[-1]:,}"
