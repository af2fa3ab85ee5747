"""Runs prompts through an engine outside LoadGen, for probes, warm-ups and comparisons."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.hang_detector import POLL_S, HangDetector
from mlperf_suite.engines.protocol import SILENCE_S, Engine, Request, Tokens
from mlperf_suite.errors import EngineDiedError, EngineError


class AnswerCollector:
    """The listener for a known number of requests, whose tags count from 0."""

    def __init__(self, count: int) -> None:
        self.token_ids: list[list[int]] = [[] for _ in range(count)]
        self.waiting = count
        self.heard = 0
        self._error: EngineError | None = None
        self._changed = threading.Condition()

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        self.heard += len(tokens)

    def finished(self, answers: Sequence[Tokens]) -> None:
        with self._changed:
            for tag, token_ids in answers:
                self.token_ids[tag] = list(token_ids)
            self.waiting -= len(answers)
            self._changed.notify_all()

    def failed(self, tag: int, error: EngineError) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def wait(self, engine: Engine, silence_s: float = SILENCE_S, *, until_waiting: int = 0) -> None:
        """Wait until at most `until_waiting` requests are unanswered.

        Raises EngineError if the engine refuses a request, dies or hangs, and stops one that hangs.
        """
        self._wait(engine, silence_s, until_waiting, math.inf)

    def watch_for(self, seconds: float, engine: Engine, silence_s: float = SILENCE_S) -> None:
        """Wait this many seconds, with or without answers; raises as `wait` does."""
        self._wait(engine, silence_s, -1, time.monotonic() + seconds)

    def _wait(self, engine: Engine, silence_s: float, until_waiting: int, until_s: float) -> None:
        watch, hangs = HangDetector(engine, silence_s), None
        with self._changed:
            while self.waiting > until_waiting and self._error is None and hangs is None:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return
                self._changed.wait(min(left_s, POLL_S))
                hangs = watch.hangs((self.heard, self.waiting), self.waiting, "requests")
        if hangs:
            watch.end()
            raise EngineDiedError(hangs)
        if self._error is not None:
            engine.abort()
            raise self._error


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The output tokens of each prompt, in order, and the seconds from start to last answer."""

    token_ids: list[list[int]]
    elapsed_s: float

    @property
    def tokens_per_s(self) -> float:
        return sum(map(len, self.token_ids)) / self.elapsed_s


def requests_of(prompts: Sequence[Sequence[int]], stops: Sequence[str] = ()) -> list[Request]:
    """One request per prompt; its tag is the prompt's index.

    `stops`: the text after which each answer ends, repeated in a cycle; empty for none.
    """
    ends = itertools.cycle(stops or [""])
    return [Request(tag, prompt, next(ends)) for tag, prompt in enumerate(prompts)]


def generate_all(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    silence_s: float = SILENCE_S,
    stops: Sequence[str] = (),
) -> BatchResult:
    """Answer every prompt. `stops`: as for `requests_of`.

    Raises EngineError if the engine refuses a prompt, dies or hangs.
    """
    answers = AnswerCollector(len(prompts))
    start = time.perf_counter()
    engine.submit(requests_of(prompts, stops), generation, answers, stream=False)
    answers.wait(engine, silence_s)
    return BatchResult(answers.token_ids, time.perf_counter() - start)
