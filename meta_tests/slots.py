"""A stand-in engine that works on a few requests at a time, so that others wait."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import SPECULATIVE, EngineDescription, Listener, RequestList
from mlperf_suite.errors import EngineError


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
