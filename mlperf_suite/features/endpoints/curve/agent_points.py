"""The points of an agentic benchmark of MLPerf Endpoints: conversations at a fixed concurrency.

As the reference client does (examples/10_Agentic_Inference/README.md of mlcommons/endpoints): each
user replays one trajectory after another, turn by turn with the recorded answers as history, a salt
before the system prompt for each pass over the data and one after it for each conversation, and the
recorded delays of tools between turns. Not an MLPerf Endpoints result: the
series takes the reference client's alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.chats.agent_replay import (
    TurnFigures,
    answered_turn,
    cache_reuse,
    stream_of,
)
from mlperf_suite.features.chats.agent_sessions import Message, RecordedSession
from mlperf_suite.features.chats.chat import ChatRequest
from mlperf_suite.features.chats.chat_client import ChatServer
from mlperf_suite.features.endpoints.curve.closed_loop import LoopTimes
from mlperf_suite.features.endpoints.curve.curve_figures import CurvePoint, PointTurns
from mlperf_suite.features.endpoints.curve.curve_points import BLOCKS, point_of
from mlperf_suite.features.endpoints.official_client_results.series import AGENTIC_SAMPLING
from mlperf_suite.features.servers.server_metrics import Reading, ServerWatch
from mlperf_suite.rules.limits import FULL_SHARE, held_back

_SALT_BYTES = 8
_WARM_UP_USERS, _WARM_UP_S = 2, 0.1
"""Whose first turns, which may take longer than any later ones, are not measured."""
_FLAGS: dict[str, dict[str, Any]] = {
    "qwen3_6-35b-a3b": {"chat_template_kwargs": {"preserve_thinking": True}}
}


class Trajectories:
    """The conversations without end, pass after pass in their order, each with its salts. No two
    objects have the same salts, so that no point finds what another left in a cache."""

    def __init__(self, sessions: Sequence[RecordedSession]) -> None:
        self._sessions, self._key = sessions, secrets.token_bytes(_SALT_BYTES)
        self._numbers = itertools.count()

    def next(self) -> tuple[str, Iterator[tuple[Any, list[Message]]], RecordedSession]:
        """The name of the next one, its turns with the messages to send, and itself."""
        repeat, place = divmod(next(self._numbers), len(self._sessions))
        session = self._sessions[place]
        salts = self._salt(str(repeat)), self._salt(f"{repeat} {session.name}")
        turns = ((turn, salted(messages, *salts)) for turn, messages in session.prompts())
        return session.name, turns, session

    def _salt(self, text: str) -> str:
        digest = hashlib.blake2b(text.encode(), digest_size=_SALT_BYTES, key=self._key)
        return digest.hexdigest()


def salted(messages: Sequence[Message], before: str, after: str) -> list[Message]:
    """The messages with a salt at each end of the system prompt, as the reference client writes
    it."""
    first, *others = messages
    content = f"[salt: {before}]\n\n{first['content']}\n\n[salt: {after}]"
    return [{**first, "content": content}, *others]


@dataclass
class ConversationLoop:
    """Holds a number of conversations at a server for some seconds; then each turn that was sent is
    awaited, and no other is sent. The first turn without an answer ends the loop.

    `turns`: the figures of each turn, in the order of their ends.
    """

    server: ChatServer
    trajectories: Trajectories
    sampling: Generation
    seconds: float
    timeout_s: float = 600.0
    times: LoopTimes = field(default_factory=LoopTimes)
    turns: list[TurnFigures] = field(default_factory=list)
    _began_s: float = 0.0

    async def hold(self, concurrency: int) -> None:
        """Hold so many conversations."""
        self._began_s = time.monotonic()
        await asyncio.gather(*(self._user() for _ in range(concurrency)))
        self.times.issuing_s = min(self.seconds, self._now_s)

    @property
    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def _is_over(self) -> bool:
        return self._now_s >= self.seconds or bool(self.times.failure)

    async def _user(self) -> None:
        while not self._is_over:
            name, turns, session = self.trajectories.next()
            for position, (turn, messages) in enumerate(turns, 1):
                await asyncio.sleep(turn.delay_s)
                if self._is_over:
                    return
                await self._turn(name, position, turn, messages, session)

    async def _turn(
        self,
        name: str,
        position: int,
        turn: Any,
        messages: list[Message],
        session: RecordedSession,
    ) -> None:
        times, number = self.times, len(self.times.issued_s)
        times.issued_s.append(self._now_s)
        for column in (times.first_s, times.ended_s):
            column.append(float("nan"))
        times.tokens.append(0)
        request = ChatRequest(messages, self.sampling, session.tools, self.timeout_s)
        asked = await self.server.ask(request)
        self.turns.append(answered_turn(name, position, turn, asked))
        if asked.failure or not asked.tokens:
            why = asked.failure or "answered without a token"
            times.failure = times.failure or f"{name}, turn {position}: {why}"
            return
        sent_s = asked.sent - self._began_s
        times.issued_s[number] = sent_s
        # A parser of tool calls may hold every piece back until the end.
        first_s = asked.latency_s if asked.ttft_s is None else asked.ttft_s
        times.first_s[number] = sent_s + first_s
        times.ended_s[number] = sent_s + asked.latency_s
        times.tokens[number] = asked.tokens


def agent_point(times: LoopTimes, concurrency: int) -> CurvePoint:
    """The figures of a point whose turns were all answered. Its interactivity is the tokens of all
    turns ÷ the sum of their times, without the tools' (endpoints_rules.md §4.1)."""
    answers = times.answered()
    point = point_of(answers, times.issuing_s, concurrency)
    ended, edges = answers.ended_ms, np.linspace(0, point.duration_s * 1000, BLOCKS + 1)

    def rate(inside: Any) -> float:
        spent_ms = answers.latency_ms[inside].sum()
        return float(answers.tokens[inside].sum() / spent_ms) * 1000 if spent_ms > 0 else 0.0

    rates = [rate((ended > edges[n]) & (ended <= edges[n + 1])) for n in range(BLOCKS)]
    blocks = [replace(b, interactivity=r) for b, r in zip(point.blocks, rates, strict=True)]
    return replace(point, interactivity=rate(slice(None)), blocks=tuple(blocks))


@dataclass
class ConversationPoints:
    """Measures points. `connect`: a client of the current event loop, for so many requests at once.
    `read`: the server's metrics, as for `ServerWatch`."""

    sessions: Sequence[RecordedSession]
    connect: Callable[[int], ChatServer]
    read: Callable[[], Reading]
    sampling: Generation
    timeout_s: float

    def warm_up(self) -> None:
        """Have the first turns answered unmeasured."""
        self._held(_WARM_UP_USERS, _WARM_UP_S)

    def measure(self, concurrency: int, seconds: float) -> CurvePoint:
        """Hold so many conversations for some seconds."""
        began, used_s = time.monotonic(), time.process_time()
        with ServerWatch(self.read) as watch:
            loop = self._held(concurrency, seconds)
            view = watch.view()
        share = (time.process_time() - used_s) / max(1e-9, time.monotonic() - began)
        point = _judged(loop.times, concurrency, share)
        if point.outcome == "measured" and (held := held_back(stream_of(loop.turns))):
            # Its interactivity is of whole turns, which a parser of tool calls may hold back.
            point = replace(point, reason=f"no TTFT and TPOT: {held}", tpot_p50_ms=None)
            point = replace(point, tpot_p90_ms=None, ttft_p50_ms=None, ttft_p90_ms=None)
        servers = () if view is None else (view,)
        return replace(point, servers=servers, turns=point_turns(loop.turns))

    def _held(self, concurrency: int, seconds: float) -> ConversationLoop:
        async def hold() -> ConversationLoop:
            # The next point begins with no connection of this one.
            with closing(self.connect(concurrency + 1)) as server:
                loop = ConversationLoop(
                    server, Trajectories(self.sessions), self.sampling, seconds, self.timeout_s
                )
                await loop.hold(concurrency)
                return loop

        return asyncio.run(hold())


def _judged(times: LoopTimes, concurrency: int, share: float) -> CurvePoint:
    fault = times.failure or ("" if times.completed else "no turn was answered")
    if not fault and share >= FULL_SHARE:
        fault = f"client-bound: the client used {share:.0%} of a core"
    if fault:
        completed = times.completed
        return CurvePoint(concurrency, "failed", reason=fault, completed=completed, failed=1)
    return agent_point(times, concurrency)


def point_turns(turns: Sequence[TurnFigures]) -> PointTurns:
    """What the rules gate of a point besides its speed, and the reuse of the KV cache."""
    scores = [turn.score for turn in turns if turn.score is not None]
    tokens = [turn.tokens for turn in turns if turn.tokens is not None]
    reuse = cache_reuse(turns)
    return PointTurns(
        len(turns),
        sum(bool(turn.failure) for turn in turns),
        round(100 * fmean(scores), 2) if scores else None,
        round(fmean(tokens), 1) if tokens else None,
        reuse.within,
        reuse.across,
    )


def sampling_of(benchmark: str, max_tokens: int) -> tuple[dict[str, Any], Generation]:
    """The reference's sampling: what it adds to OpenAI's fields, and OpenAI's. That of
    DeepSeek-V4.1-Flash is not published: Kimi-K3's is used."""
    more = dict(AGENTIC_SAMPLING.get(benchmark, AGENTIC_SAMPLING["kimi-k3"]))
    del more["max_new_tokens"]
    temperature, top_p = more.pop("temperature"), more.pop("top_p")
    sampling = Generation(max_tokens, temperature=temperature, top_p=top_p, seed=None)
    return {**more, **_FLAGS.get(benchmark, {})}, sampling


def saltable(sessions: Sequence[RecordedSession], source: str) -> Sequence[RecordedSession]:
    """The sessions. Raises DatasetError for one without a system prompt."""
    if bare := [session.name for session in sessions if not session.opening]:
        raise DatasetError(f"{source}: {bare[0]} has no system prompt to salt")
    return sessions
