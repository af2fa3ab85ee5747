"""Holds a fixed number of requests at an engine: a closed loop, as MLPerf Endpoints loads a server.

Each answer is followed by the next request at once (endpoints_rules.md §6.1 of
github.com/mlcommons/endpoints_policies: load pattern `concurrency`). The suite's own client of a
curve; LoadGen has no such load.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.request_times import RequestTimes
from mlperf_suite.engines.hang_detector import POLL_S, HangDetector
from mlperf_suite.engines.protocol import SILENCE_S, Engine, Request, Tokens
from mlperf_suite.errors import EngineDiedError, EngineError

Prompt = tuple[Sequence[int], str]
"""The token ids of a prompt, and the text after which its answer ends, "" for none."""


def _times() -> array[float]:
    return array("d")


@dataclass(slots=True)
class LoopTimes:
    """What a loop measured, by request in the order of issue.

    `issued_s`, `first_s`, `ended_s`: in s since the loop began; the latter two NaN for what did not
    come. `tokens`: of each answer. `issuing_s`: when the loop issued its last request or was ended.
    `failure`: the first error of a request, which ended the loop; empty if all were answered.
    `answers`: the tokens of each, by request, where they are kept.
    """

    issued_s: array[float] = field(default_factory=_times)
    first_s: array[float] = field(default_factory=_times)
    ended_s: array[float] = field(default_factory=_times)
    tokens: array[int] = field(default_factory=lambda: array("q"))
    issuing_s: float = 0.0
    failure: str = ""
    answers: dict[int, Sequence[int]] = field(default_factory=dict)

    def answered(self) -> RequestTimes:
        """The requests that were answered, since the loop began."""
        import numpy as np

        ended = np.array(self.ended_s)
        rows = ~np.isnan(ended)
        issued, first, ended = (
            np.array(column)[rows] * 1000 for column in (self.issued_s, self.first_s, ended)
        )
        return RequestTimes(issued, first, ended, np.array(self.tokens)[rows])

    @property
    def completed(self) -> int:
        """The requests that were answered."""
        return sum(not math.isnan(end) for end in self.ended_s)


StopCondition = Callable[[LoopTimes, float], bool]
"""Whether to issue no more, from the figures so far and the seconds since the loop began."""
_Event = tuple[float, Sequence[Tokens], EngineError | None, bool]


class _Events:
    """The listener: puts what the engine reports into a queue, with the time (time.monotonic)."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[_Event] = SimpleQueue()

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        self.queue.put((time.monotonic(), tokens, None, False))

    def finished(self, answers: Sequence[Tokens]) -> None:
        self.queue.put((time.monotonic(), answers, None, True))

    def failed(self, tag: int, error: EngineError) -> None:
        self.queue.put((time.monotonic(), [(tag, ())], error, True))


def hold_concurrency(
    engine: Engine,
    prompts: Iterator[Prompt],
    generation: Generation,
    concurrency: int,
    enough: StopCondition,
    *,
    silence_s: float = SILENCE_S,
    keeps_answers: bool = False,
) -> LoopTimes:
    """Keep `concurrency` requests at the engine until `enough`, then wait for the last answers.

    `enough` is asked after every answer, and at least every POLL_S. A request that fails ends the
    loop at once: its requests are dropped, and `failure` says why. Raises EngineDiedError if the
    engine dies or hangs, which is stopped then.
    """
    loop = _Loop(engine, prompts, generation, keeps_answers)
    try:
        loop.issue(concurrency)
        while loop.waiting:
            loop.take(silence_s)
            if loop.times.failure:
                engine.abort()
                break
            loop.go_on(concurrency, enough)
    except BaseException:
        engine.abort()
        raise
    return loop.times


class _Loop:
    def __init__(
        self, engine: Engine, prompts: Iterator[Prompt], generation: Generation, keeps: bool
    ) -> None:
        self._engine, self._prompts, self._generation = engine, prompts, generation
        self._keeps = keeps
        self._events = _Events()
        self._began_s = time.monotonic()
        self._open = True
        self._watch: HangDetector | None = None
        self._heard = 0
        self.times = LoopTimes()
        self.waiting = 0

    def issue(self, count: int) -> None:
        """Send the next prompts, with one call of the engine."""
        times, requests = self.times, []
        for _ in range(count):
            token_ids, stop = next(self._prompts)
            requests.append(Request(len(times.issued_s), token_ids, stop))
            times.issued_s.append(time.monotonic() - self._began_s)
            times.first_s.append(float("nan"))
            times.ended_s.append(float("nan"))
            times.tokens.append(0)
        self.waiting += count
        self._engine.submit(requests, self._generation, self._events, stream=True)

    def take(self, silence_s: float) -> None:
        """Take up what the engine reports next, or look after it if it reports nothing."""
        try:
            event = self._events.queue.get(timeout=POLL_S)
        except Empty:
            self._look(silence_s)
            return
        at, tokens, error, is_end = event
        now_s = at - self._began_s
        self._heard += len(tokens)
        if error is not None:
            if isinstance(error, EngineDiedError):
                raise error
            self.times.failure = f"request {tokens[0][0] + 1:,}: {error}"
            return
        for tag, token_ids in tokens:
            if math.isnan(self.times.first_s[tag]):
                self.times.first_s[tag] = now_s
            if is_end:
                self.times.ended_s[tag] = now_s
                self.times.tokens[tag] = len(token_ids)
                if self._keeps:
                    self.times.answers[tag] = token_ids
                self.waiting -= 1

    def _look(self, silence_s: float) -> None:
        self._watch = self._watch or HangDetector(self._engine, silence_s)
        if hangs := self._watch.hangs((self._heard, self.waiting), self.waiting, "requests"):
            self._watch.end()
            raise EngineDiedError(hangs)

    def go_on(self, concurrency: int, enough: StopCondition) -> None:
        """Issue requests up to the concurrency, unless it is enough."""
        if not self._open:
            return
        now_s = time.monotonic() - self._began_s
        self.times.issuing_s = now_s
        if enough(self.times, now_s):
            self._open = False
        elif (missing := concurrency - self.waiting) > 0:
            self.issue(missing)
