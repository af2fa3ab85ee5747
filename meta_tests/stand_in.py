"""An engine with known delays, which answers every prompt with made-up tokens.

Results made with it measure nothing but the suite, and their descriptions say so.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import SPECULATIVE, EngineDescription, Listener, RequestList
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
                    error = EngineDiedError("the stand-in engine died, as configured")
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


class SlotsEngine(StandInEngine):
    """Has `slots` requests at work, each with ten tokens within 20 ms.

    `refused`: tells from how many requests came before whether the next is refused.
    `most_at_once`: the most requests that it had, at work or waiting. `prompts`: those it was sent.
    """

    def __init__(
        self, slots: int = 4, refused: Callable[[int], bool] = lambda count: False
    ) -> None:
        self._free = [0.0] * slots
        self._refused = refused
        self._ends: list[float] = []
        self.most_at_once = 0
        self.prompts: list[tuple[int, ...]] = []
        super().__init__(Delays(0.002, 0.018), lambda prompt: list(range(10)))

    @property
    def description(self) -> EngineDescription:
        return EngineDescription("stand-in engine", "1", "told", True, 8192, {SPECULATIVE: None})

    def _times(self, now: float, tokens: int) -> tuple[float, float]:
        begin = max(now, heapq.heappop(self._free))
        end = begin + self.delays.first_token_s + self.delays.rest_s
        heapq.heappush(self._free, end)
        self._ends = [other for other in self._ends if other > now] + [end]
        self.most_at_once = max(self.most_at_once, len(self._ends))
        return begin + self.delays.first_token_s, end

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        for request in requests:
            count = len(self.prompts)
            self.prompts.append(tuple(request.prompt_token_ids))
            if self._refused(count):
                with self._changed:
                    error = EngineError("HTTP 500: no luck today")
                    self._at(0.0, partial(listener.failed, request.tag, error))
                    self._changed.notify()
            else:
                super().submit([request], generation, listener, stream=stream)
