"""Sends requests to an engine at given times, whatever it answers: an open loop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import Engine, Request, Tokens
from mlperf_suite.errors import EngineDiedError, EngineError

_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Due:
    """A request to send at `at_s`, in s since the loop begins."""

    at_s: float
    token_ids: Sequence[int]
    generation: Generation


@dataclass(slots=True)
class OpenLoop:
    """What became of the requests, by their number in the order of sending.

    `began_s`: in s of time.monotonic. `issued_s`: when each was given to the engine, since then.
    `tokens`: of the answers that came. `failures`: why others did not. `ended`: why the loop ended
    before its last request; empty if it did not.
    """

    began_s: float = 0.0
    issued_s: list[float] = field(default_factory=list)
    tokens: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    ended: str = ""
    _events: SimpleQueue[tuple[Sequence[Tokens], EngineError | None]] = field(
        default_factory=SimpleQueue
    )

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        """The engine's trace has their times."""

    def finished(self, answers: Sequence[Tokens]) -> None:
        self._events.put((answers, None))

    def failed(self, tag: int, error: EngineError) -> None:
        self._events.put(([(tag, ())], error))

    def send(self, engine: Engine, requests: Iterable[Due]) -> None:
        """Send each request when it is due, and wait for the last answers. Ends early if the
        engine dies or hangs, or at Ctrl-C; what came until then is kept.

        A request is made before it is due, so `requests` may be an iterator that makes them.
        """
        self.began_s = time.monotonic()
        try:
            for due in requests:
                self._wait_until(self.began_s + due.at_s)
                if self.ended:
                    break
                tag = len(self.issued_s)
                self.issued_s.append(time.monotonic() - self.began_s)
                request = Request(tag, due.token_ids)
                engine.submit([request], due.generation, self, stream=True)
            while self.waiting:
                self._take(_LOOK_S)
        except KeyboardInterrupt:
            self.ended = "interrupted"
        if self.ended:
            engine.abort()

    @property
    def waiting(self) -> int:
        """The requests that were sent and have neither an answer nor a failure."""
        return len(self.issued_s) - len(self.tokens) - len(self.failures)

    def _wait_until(self, moment: float) -> None:
        while (left_s := moment - time.monotonic()) > 0 and not self.ended:
            self._take(left_s)

    def _take(self, patience_s: float) -> None:
        try:
            answers, error = self._events.get(timeout=patience_s)
        except Empty:
            return
        for tag, token_ids in answers:
            if error is None:
                self.tokens[tag] = len(token_ids)
            else:
                self.failures[tag] = str(error)
        if isinstance(error, EngineDiedError):
            self.ended = str(error)
