"""Many prompts through an engine at once, with nothing between: for probes and comparisons."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import SILENCE_S, Engine, Request
from mlperf_suite.engines.watch import Watch
from mlperf_suite.errors import EngineError


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The output tokens of each prompt, in order, and the seconds from first in to last out."""

    token_ids: list[list[int]]
    elapsed_s: float

    @property
    def tokens_per_s(self) -> float:
        return sum(map(len, self.token_ids)) / self.elapsed_s


class _Collector:
    def __init__(self, count: int) -> None:
        self.token_ids: list[list[int]] = [[] for _ in range(count)]
        self.error: EngineError | None = None
        self.done = threading.Event()
        self.missing = count

    def first_token(self, tag: int, token_ids: Sequence[int]) -> None:
        """Not asked for."""

    def finished(self, tag: int, token_ids: Sequence[int]) -> None:
        self.token_ids[tag] = list(token_ids)
        self.missing -= 1
        if not self.missing:
            self.done.set()

    def failed(self, tag: int, error: EngineError) -> None:
        self.error = self.error or error
        self.done.set()


def generate_all(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    silence_s: float = SILENCE_S,
) -> BatchResult:
    """Answer every prompt. Raises EngineError where the engine refuses one, dies or hangs."""
    collector = _Collector(len(prompts))
    started = time.perf_counter()
    requests = [Request(tag, prompt) for tag, prompt in enumerate(prompts)]
    engine.submit(requests, generation, collector, stream=False)
    Watch(engine, silence_s).wait(collector.done, lambda: collector.missing)
    if collector.error is not None:
        engine.abort()
        raise collector.error
    return BatchResult(collector.token_ids, time.perf_counter() - started)
