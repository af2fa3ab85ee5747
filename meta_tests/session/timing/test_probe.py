"""What the probe makes of the times that it took; how near it comes is evidence."""

from array import array
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.engines.batch import AnswerCollector
from mlperf_suite.engines.protocol import (
    EngineDescription,
    EngineTrace,
    Listener,
    RequestList,
    Steps,
)
from mlperf_suite.errors import EngineError
from mlperf_suite.session.preparation import warm_up, warm_up_prompts
from mlperf_suite.session.timing.estimate import EngineSpeed, warm_up_requests
from mlperf_suite.session.timing.probe import _usual_step_s, fit_step, probe

COST = EngineSpeed(0.0004, 0.04, 0.001)
SECONDS = st.floats(1e-5, 10)


@given(few=st.integers(1, 8), more=st.integers(1, 60), few_s=SECONDS, many_s=SECONDS)
def test_no_cost_is_below_nothing(few: int, more: int, few_s: float, many_s: float) -> None:
    a, b = fit_step((few, few_s), (few + more, many_s))
    assert a >= 0 and b >= 0 and a + b > 0


class Clocked:
    """An engine in simulated time, which prefills all prompts and then decodes for all."""

    alive, now = True, 50.0
    description = EngineDescription("clocked", "1", "none", True, 10_000, {"max_num_seqs": 128})

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        tokens = generation.max_new_tokens
        self.now += COST.prefill_s * sum(len(request.prompt_token_ids) for request in requests)
        listener.first_tokens([(request.tag, [1]) for request in requests])
        self.now += (tokens - 1) * (COST.step_s + COST.request_s * len(requests))
        listener.finished([(request.tag, [1] * tokens) for request in requests])

    def abort(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing to stop."""


def test_the_probe_finds_what_an_engine_costs(monkeypatch: MonkeyPatch) -> None:
    engine = Clocked()
    for name in ("perf_counter", "monotonic"):
        monkeypatch.setattr(f"mlperf_suite.session.timing.probe.time.{name}", lambda: engine.now)
    prompts = [[index] * (100 + 40 * (index % 7)) for index in range(40)]
    speed = probe(engine, prompts, Generation())
    costs = (speed.prefill_s, speed.step_s, speed.request_s)
    assert costs == pytest.approx((COST.prefill_s, COST.step_s, COST.request_s), rel=0.02)
    assert (speed.at_once, speed.probe_s) == (128, pytest.approx(engine.now - 50))


@pytest.mark.parametrize(
    ("tokens", "replicas", "step_s"),
    [
        ([8] * 40, [], 0.5),
        # Of two engines, each makes the steps of its own half.
        ([4] * 40, [0, 1] * 20, 1.0),
        # Half of the requests in turn with the others is no step of all.
        ([4] * 40, [], None),
    ],
    ids=["one", "two", "halves"],
)
def test_steps_of_all(tokens: list[int], replicas: list[int], step_s: float | None) -> None:
    ended_s = array("d", [0.5 * step + 9 * (step > 30) for step in range(40)])
    steps = Steps(ended_s=ended_s, tokens=array("i", tokens), replica=array("i", replicas))
    engine: Any = SimpleNamespace(take_trace=lambda: EngineTrace(steps), steps_made=40)
    assert _usual_step_s(engine, 8) == step_s


def test_too_few_prompts_are_refused() -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match="at least 16 prompts, not 15"):
        probe(nothing, [[1]] * 15, Generation())


# The warm-up: what it sends and how, and that no sample can then be answered from a cache


OFFLINE, SERVER = LLAMA3_1_8B.scenario("Offline"), LLAMA3_1_8B.scenario("Server")
STREAM = LLAMA3_1_8B_EDGE.scenario("SingleStream")
PROMPTS = [[1, 2, 3], [4, 5, 6, 7], [8, 9]]


class Recording(StandInEngine):
    """Remembers what it was asked together, and the most that it had at once."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(Delays(rest_s=0.02), lambda prompt: [7, 7, 7], **settings)
        self.batches: list[list[list[int]]] = []
        self.streamed: list[bool] = []
        self.stops: list[str] = []
        self.unanswered: list[int] = []
        """Of each time that it was asked: the requests that it had not answered by then."""

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        self.batches.append([list(r.prompt_token_ids) for r in requests])
        self.streamed.append(stream)
        self.stops.extend(r.stop for r in requests)
        assert isinstance(listener, AnswerCollector)
        before = sum(map(len, self.batches[:-1]))
        self.unanswered.append(before - (len(listener.token_ids) - listener.waiting))
        super().submit(requests, generation, listener, stream=stream)


@given(st.lists(st.lists(st.integers(0, 50), min_size=1), min_size=1), st.integers(1, 30))
def test_prompts_are_as_long_and_begin_otherwise(prompts: list[list[int]], count: int) -> None:
    mirrored = [prompts[number % len(prompts)][::-1] for number in range(count)]
    assert warm_up_prompts(prompts, count) == mirrored


def test_offline_is_warmed_up_at_once_and_server_one_query_at_a_time() -> None:
    for scenario, groups in ((OFFLINE, [3]), (SERVER, [1, 1, 1]), (STREAM, [1, 1, 1])):
        engine = Recording()
        figures = warm_up(engine, PROMPTS, Generation(), scenario, 200.0, stops=["", "```"])
        engine.close()
        # Answers end after the samples' own text.
        assert engine.stops == ["", "```", ""]
        assert [len(group) for group in engine.batches] == groups
        assert set(engine.streamed) == {scenario is not OFFLINE}
        if scenario is STREAM:
            assert engine.unanswered == [0, 0, 0], "each answer is awaited"
        assert (figures.requests, figures.tokens) == (3, 9)
        assert figures.elapsed_s > 0


def test_an_engine_that_dies_ends_the_warm_up() -> None:
    """Also in the pause before the next request."""
    for scenario in (OFFLINE, SERVER, STREAM):
        engine = Recording(fail_after=1)
        with pytest.raises(EngineError, match="died"):
            warm_up(engine, PROMPTS, Generation(), scenario, 200.0)
        engine.close()
    engine = Recording(fail_after=0)
    with pytest.raises(EngineError, match="died"):
        warm_up(engine, PROMPTS, Generation(), SERVER, 1e-6)
    engine.close()
    assert len(engine.batches) == 1


def test_the_user_says_how_many_and_each_of_several_engines_is_as_warm_as_one_alone() -> None:
    for count in (0, 7):
        for smoke, engines in ((True, 1), (False, 8)):
            assert warm_up_requests(OFFLINE, count, smoke=smoke, engines=engines) == count
    fewer, more = (warm_up_requests(OFFLINE, None, smoke=smoke) for smoke in (True, False))
    assert fewer < more
    assert warm_up_requests(STREAM, None, smoke=False) == 2
    for scenario in (OFFLINE, SERVER, STREAM):
        one, eight = (warm_up_requests(scenario, None, smoke=True, engines=n) for n in (1, 8))
        assert eight == 8 * one
