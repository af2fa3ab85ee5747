"""Engines with known delays, for measuring and testing the suite itself.

One answers every prompt with made-up tokens. The other plays back prepared answers at a set pace: a
submission tree can be built and checked at full size only from full-size runs, and it produces them
on any machine, in MLPerf's own time. Results made with either measure nothing but the suite, and
their descriptions say so.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.datasets.media import identity_of
from mlperf_suite.engines.protocol import (
    REPLAY,
    SPECULATIVE,
    EngineDescription,
    Listener,
    RequestList,
)
from mlperf_suite.errors import EngineDiedError, EngineError

AnswerOf = Callable[[Sequence[int]], Sequence[int]]
"""The output tokens for a prompt's."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds from a request to its first token, and from there to its end."""

    first_token_s: float = 0.0
    rest_s: float = 0.0


class StandInEngine:
    """Answers after known delays, on one thread. `answer` maps a prompt to the output.

    `fail_after`: after this many requests, every request fails as on a dead engine; None: never.
    """

    cached_prompt_tokens = 0
    """There is no cache, unless a subclass adds one."""

    def __init__(
        self,
        delays: Delays,
        answer: AnswerOf,
        *,
        model: str = "stand-in",
        fail_after: int | None = None,
    ) -> None:
        self.delays = delays
        self._answer = answer
        self._fail_after = fail_after
        self._model = model
        self._order = itertools.count()
        self._requests = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._changed = threading.Condition()
        self._closed = self._died = False
        self._thread = threading.Thread(target=self._work, name="stand-in engine", daemon=True)
        self._thread.start()

    @property
    def description(self) -> EngineDescription:
        return EngineDescription(
            "stand-in engine", "1", self._model, True, 131_072, {SPECULATIVE: None}
        )

    @property
    def alive(self) -> bool:
        return not (self._closed or self._died)

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        now = time.monotonic()
        with self._changed:
            for request in requests:
                number = next(self._requests)
                tag = request.tag
                if self._fail_after is not None and number >= self._fail_after:
                    self._died = True
                    error = EngineDiedError("the stand-in engine died, as it was told to")
                    self._at(now, partial(listener.failed, tag, error))
                    continue
                tokens = self._answer(request.prompt_token_ids)[: generation.max_new_tokens]
                first_at, last_at = self._times(now, len(tokens))
                if stream:
                    self._at(first_at, partial(listener.first_tokens, [(tag, tokens[:1])]))
                self._at(last_at, partial(listener.finished, [(tag, tokens)]))
            self._changed.notify()

    def _times(self, now: float, tokens: int) -> tuple[float, float]:
        """When a request that came at `now` has its first and its last token (time.monotonic, s).

        Called for each request in order of arrival. `tokens`: the length of its answer.
        """
        first_at = now + self.delays.first_token_s
        return first_at, first_at + self.delays.rest_s

    def _at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), action))

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._due or self._due[0][0] > time.monotonic()):
                    wait = self._due[0][0] - time.monotonic() if self._due else None
                    self._changed.wait(wait)
                if self._closed:
                    return
                now = time.monotonic()
                ready = []
                while self._due and self._due[0][0] <= now:
                    ready.append(heapq.heappop(self._due)[2])
            for action in ready:
                action()

    def abort(self) -> None:
        with self._changed:
            self._due.clear()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(5)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast answers are played back.

    `samples_per_s`: how many answers end per second, over all requests, in order of arrival.
    `first_token_s`: the shortest time from a request to its first token. `token_s`: the shortest
    time between two of its tokens.
    """

    samples_per_s: float
    first_token_s: float = 0.0
    token_s: float = 0.0


class ReplayEngine(StandInEngine):
    """Answers each prompt with the tokens prepared for it.

    `answers`: output token ids by `identity_of` a prompt; any other prompt, such as a warm-up's, is
    answered with one token. `paces`: how fast a run is played back, by mode; requests before the
    first run are answered at once.
    """

    def __init__(
        self,
        answers: Mapping[tuple[int, ...], Sequence[int]],
        paces: Mapping[str, Pace],
        model: str,
    ) -> None:
        super().__init__(
            Delays(), lambda prompt: answers.get(identity_of(prompt), (0,)), model=model
        )
        self._model = model
        self._paces = paces
        self._pace = Pace(math.inf)
        self._last_end = 0.0

    @property
    def description(self) -> EngineDescription:
        room = super().description.max_model_len
        return EngineDescription(REPLAY, "1", self._model, True, room, {SPECULATIVE: None})

    def run_begins(self, name: str, mode: str) -> None:
        """Play back at this mode's pace from now on. Raises EngineError if it has none."""
        if mode not in self._paces:
            raise EngineError(f"{name}: the replay has no pace for {mode} runs")
        self._pace = self._paces[mode]

    def _times(self, now: float, tokens: int) -> tuple[float, float]:
        # One after another, none sooner than its request allows.
        first_at = now + self._pace.first_token_s
        turn = max(now, self._last_end) + 1 / self._pace.samples_per_s
        self._last_end = max(first_at + (tokens - 1) * self._pace.token_s, turn)
        return first_at, self._last_end
