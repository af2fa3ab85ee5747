"""The replay engine keeps its pace and gives what was prepared, in every mode its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evidence.submission.replay import Pace, ReplayEngine
from meta_tests.engines.recording import RecordingListener
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import REPLAY, Request, RunObserver
from mlperf_suite.errors import EngineError

COUNT = 15_000
"""More than the samples of Offline's one query."""


@contextmanager
def playing(
    sizing: Pace, answers: dict[tuple[int, ...], list[int]] | None = None
) -> Iterator[ReplayEngine]:
    """A replay in a performance run at this pace."""
    engine = ReplayEngine(answers or {}, {"performance": sizing}, "made up")
    engine.run_begins("this run", "performance")
    yield engine
    engine.close()


def played(sizing: Pace, count: int, *, stream: bool) -> RecordingListener:
    """What is heard of `count` requests in one query, the tokens of each its number and 9."""
    listener = RecordingListener()
    with playing(sizing, {(i,): [i, 9] for i in range(count)}) as engine:
        requests = [Request(i, [i]) for i in range(count)]
        engine.submit(requests, Generation(), listener, stream=stream)
        listener.wait(count)
    return listener


def test_one_large_query_ends_sample_by_sample_in_the_order_asked() -> None:
    calls = played(Pace(1e6), COUNT, stream=False).calls
    assert calls == [("answers", [(i, [i, 9])]) for i in range(COUNT)]


def test_a_streamed_answer_begins_with_its_first_token_before_it_ends() -> None:
    listener = played(Pace(1e4, first_token_s=0.001), 50, stream=True)
    assert listener.first == {i: [i] for i in range(50)}
    assert listener.answers == {i: [i, 9] for i in range(50)}


def test_answers_end_at_the_pace_whenever_they_were_asked_for() -> None:
    with playing(Pace(4)) as engine:
        ends = [engine._times(100.0, 50)[1] for _ in range(8)]
    assert ends == [100.25 + i / 4 for i in range(8)]
    # One at a time, each asked for when the one before has ended.
    assert engine._times(ends[-1], 50)[1] == ends[-1] + 0.25
    # Nothing is caught up after a pause.
    assert engine._times(500.0, 50)[1] == 500.25


def test_an_answer_takes_its_own_time_where_nobody_waits() -> None:
    with playing(Pace(1000, first_token_s=0.5, token_s=0.25)) as engine:
        assert engine._times(10.0, 1) == (10.5, 10.5)
        assert engine._times(20.0, 5) == (20.5, 21.5)


def test_it_says_that_it_is_a_replay() -> None:
    engine = ReplayEngine({}, {}, "FOLDER")
    assert (engine.description.name, engine.description.stand_in) == (REPLAY, True)
    assert engine.description.model == "FOLDER"
    engine.close()


def test_a_prompt_without_an_answer_is_a_warm_ups() -> None:
    engine = ReplayEngine({(1,): [5, 6, 7]}, {}, "FOLDER")
    result = generate_all(engine, [[1], [2]], Generation())
    assert result.token_ids == [[5, 6, 7], [0]]
    engine.close()


def test_each_mode_has_its_own_pace() -> None:
    paces = {"accuracy": Pace(4), "test06": Pace(8, first_token_s=2)}
    engine = ReplayEngine({}, paces, "FOLDER")
    assert isinstance(engine, RunObserver)
    assert engine._times(100.0, 1) == (100.0, 100.0)  # before the first run: at once
    engine.run_begins("Offline accuracy", "accuracy")
    assert engine._times(200.0, 1)[1] == 200.25
    engine.run_begins("Offline TEST06", "test06")
    assert engine._times(300.0, 1) == (302.0, 302.0)
    with pytest.raises(EngineError, match=r"^Offline: the replay has no pace for performance runs"):
        engine.run_begins("Offline", "performance")
    engine.close()
