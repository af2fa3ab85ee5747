"""The untimed warm-up before each measured run: outside LoadGen, recorded, judged by nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from mlperf_suite.benchmarks.definition import Generation, Scenario
from mlperf_suite.engines.protocol import Engine, Request
from mlperf_suite.errors import EngineError
from mlperf_suite.results.schema import WarmUpFigures

SMOKE_REQUESTS, OFFICIAL_REQUESTS = 4, 64
_ONE_BY_ONE = 2
"""SingleStream is warm after so few: each is alone."""
_TICK_S = 0.2


def warm_up_prompts(prompts: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """`count` prompts as long as the benchmark's own, and none of them.

    Each is a sample's prompt from its last token to its first: no cache of beginnings that is
    filled with it can answer the sample itself.
    """
    return [list(reversed(prompts[i % len(prompts)])) for i in range(count)]


def warm_up_requests(scenario: Scenario, asked: int | None, *, smoke: bool) -> int:
    """How many requests warm a run of this scenario up. `asked`: what the user said, or None."""
    if asked is not None:
        return asked
    if scenario.loadgen_scenario == "SingleStream":
        return _ONE_BY_ONE
    return SMOKE_REQUESTS if smoke else OFFICIAL_REQUESTS


class _Counter:
    """Hears of the answers; only how many tokens they have matters."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._lock = threading.Lock()
        self.tokens = 0
        self.error: EngineError | None = None
        self.one_done = threading.Semaphore(0)
        self.all_done = threading.Event()

    def first_token(self, tag: int, token_ids: Sequence[int]) -> None:
        """Not looked at."""

    def finished(self, tag: int, token_ids: Sequence[int]) -> None:
        with self._lock:
            self.tokens += len(token_ids)
            self._left -= 1
            over = not self._left
        self.one_done.release()
        if over:
            self.all_done.set()

    def failed(self, tag: int, error: EngineError) -> None:
        self.error = self.error or error
        self.one_done.release()
        self.all_done.set()


def warm_up(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    generation: Generation,
    scenario: Scenario,
    rate_qps: float | None = None,
) -> WarmUpFigures:
    """Answer the prompts in the way of a scenario: at once, at a rate, or one after another.

    `rate_qps`: queries/s that the run will be sent, where it is sent any. Raises EngineError.
    """
    counter = _Counter(len(prompts))
    requests = [Request(tag, prompt) for tag, prompt in enumerate(prompts)]
    started = time.monotonic()
    if scenario.loadgen_scenario == "Offline":
        engine.submit(requests, generation, counter, stream=False)
    else:
        one_by_one = scenario.loadgen_scenario == "SingleStream"
        for request in requests:
            engine.submit([request], generation, counter, stream=True)
            if one_by_one:
                _wait_for_one(counter)
            elif rate_qps:
                counter.all_done.wait(1 / rate_qps)
            if counter.error is not None:
                break
    while not counter.all_done.wait(_TICK_S):
        continue
    if counter.error is not None:
        engine.abort()
        raise counter.error
    elapsed_s = time.monotonic() - started
    concurrency = {"Offline": "all at once", "SingleStream": "one after another"}
    at_a_rate = f"{rate_qps:g} queries/s" if rate_qps else "all at once"
    return WarmUpFigures(
        requests=len(requests),
        tokens=counter.tokens,
        elapsed_s=round(elapsed_s, 3),
        concurrency=concurrency.get(scenario.loadgen_scenario, at_a_rate),
    )


def _wait_for_one(counter: _Counter) -> None:
    while not counter.one_done.acquire(timeout=_TICK_S):
        continue
