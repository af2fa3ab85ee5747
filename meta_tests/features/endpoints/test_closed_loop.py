"""A closed loop holds its concurrency, times every request, and ends however the engine ends."""

import itertools
import math
from collections.abc import Iterator

import pytest

from meta_tests.stand_in import Delays, SlotsEngine, StandInEngine
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.errors import EngineDiedError
from mlperf_suite.features.endpoints.curve.closed_loop import (
    LoopTimes,
    Prompt,
    StopCondition,
    hold_concurrency,
)

GENERATION = Generation(max_new_tokens=10, min_new_tokens=1)


def prompts() -> Iterator[Prompt]:
    return (([number], "") for number in itertools.count())


def after(count: int) -> StopCondition:
    return lambda times, now_s: len(times.issued_s) >= count


def loop(engine: StandInEngine, concurrency: int, enough: StopCondition) -> LoopTimes:
    try:
        return hold_concurrency(engine, prompts(), GENERATION, concurrency, enough)
    finally:
        engine.close()


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_concurrency_is_held_and_every_request_has_its_times(concurrency: int) -> None:
    engine = SlotsEngine(4)
    times = loop(engine, concurrency, after(40))
    count = len(times.issued_s)
    assert 40 <= count < 40 + concurrency
    assert engine.most_at_once == concurrency
    assert engine.prompts == [(number,) for number in range(count)]
    assert times.completed == count and set(times.tokens) == {10}
    assert not times.failure
    rows = zip(times.issued_s, times.first_s, times.ended_s, strict=True)
    assert all(0 <= issued < first < end for issued, first, end in rows)
    # After the last request nothing more is issued, and every answer is waited for.
    assert max(times.issued_s) <= times.issuing_s < max(times.ended_s)


def test_a_request_that_fails_ends_the_loop_with_its_reason() -> None:
    engine = SlotsEngine(4, lambda count: count == 12)
    times = loop(engine, 4, after(1000))
    assert times.failure == "request 13: HTTP 500: no luck today"
    assert times.completed < 13 < len(times.issued_s) + 4
    assert any(math.isnan(end) for end in times.ended_s)


def test_an_engine_that_dies_raises() -> None:
    engine = StandInEngine(Delays(0.001, 0.001), lambda prompt: [1, 2], fail_after=9)
    with pytest.raises(EngineDiedError, match="as configured"):
        loop(engine, 3, after(1000))


def test_an_interrupt_leaves_no_request_behind() -> None:
    engine = SlotsEngine(2)
    aborts: list[bool] = []
    engine.abort = lambda: aborts.append(True)  # type: ignore[method-assign]

    def interrupted(times: LoopTimes, now_s: float) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop(engine, 2, interrupted)
    assert aborts


def test_an_engine_that_shows_no_progress_counts_as_hanging() -> None:
    engine = StandInEngine(Delays(600, 600), lambda prompt: [1])
    with pytest.raises(EngineDiedError, match="no progress"):
        hold_concurrency(engine, prompts(), GENERATION, 2, after(10), silence_s=0.5)
    engine.close()
