"""The probe's figures against an engine whose cost is known, and what a plan makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from pytest import MonkeyPatch

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import (
    EngineDescription,
    EngineTrace,
    Listener,
    Request,
    RequestList,
    Steps,
)
from mlperf_suite.session.timing import probe as probe_module
from mlperf_suite.session.timing.estimate import EngineSpeed
from mlperf_suite.session.timing.probe import probe

PROMPTS = [[index] * (100 + 40 * (index % 7)) for index in range(40)]
TOKENS_A_STEP = 2048


class Clocked:
    """An engine in simulated time: it moves a clock of its own by the cost of each step.

    A step prefills what fits into it and decodes for all others, as continuous batching does.
    """

    alive = True

    def __init__(self, cost: EngineSpeed, at_once: int = 128) -> None:
        settings: dict[str, object] = {"max_num_seqs": at_once}
        self.description = EngineDescription("clocked", "1", "none", True, 10_000, settings)
        self._cost = cost
        self._at_once = at_once
        self.now = 50.0
        self.batches: list[tuple[int, int]] = []

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        tokens = generation.max_new_tokens
        assert generation.min_new_tokens == tokens or not stream
        self.batches.append((len(requests), tokens))
        queue, running = list(requests), dict[int, int]()
        while queue or running:
            running = {tag: tokens_left - 1 for tag, tokens_left in running.items()}
            self.now += self._cost.step_s + self._cost.request_s * len(running)
            new, room = list[Request](), TOKENS_A_STEP
            while queue and len(running) + len(new) < self._at_once:
                room -= len(queue[0].prompt_token_ids)
                if room < 0:
                    break
                new.append(queue.pop(0))
            self.now += self._cost.prefill_s * sum(len(request.prompt_token_ids) for request in new)
            for request in new:
                running[request.tag] = tokens - 1
                if stream:
                    listener.first_tokens([(request.tag, [1])])
            self.stepped(len(running))
            for tag in [tag for tag, tokens_left in running.items() if tokens_left <= 0]:
                del running[tag]
                listener.finished([(tag, [1] * tokens)])

    def stepped(self, tokens: int) -> None:
        """Called at the end of a step, with the number of tokens made."""

    def abort(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing to stop."""


@pytest.fixture
def on_its_clock(monkeypatch: MonkeyPatch) -> Any:
    def use(engine: Clocked) -> Clocked:
        for name in ("perf_counter", "monotonic"):
            monkeypatch.setattr(f"{probe_module.__name__}.time.{name}", lambda: engine.now)
        return engine

    return use


@pytest.mark.parametrize("slower", [0.1, 1, 10])
def test_the_probe_finds_what_an_engine_costs(on_its_clock: Any, slower: float) -> None:
    real = EngineSpeed(0.0004 * slower, 0.04 * slower, 0.001 * slower)
    engine = on_its_clock(Clocked(real))
    speed = probe(engine, PROMPTS, Generation())
    assert speed.prefill_s == pytest.approx(real.prefill_s, rel=0.3)
    assert speed.step_s == pytest.approx(real.step_s, rel=0.1)
    assert speed.request_s == pytest.approx(real.request_s, rel=0.3)
    assert speed.at_once == 128
    assert speed.probe_s == pytest.approx(engine.now - 50)


class Disturbed(Clocked):
    """Reports its steps, some of which take long because of other work on the machine."""

    def __init__(self, cost: EngineSpeed) -> None:
        super().__init__(cost)
        self.steps_made = 0
        self._steps = Steps()

    def stepped(self, tokens: int) -> None:
        self.steps_made += 1
        if self.steps_made % 6 == 0:
            self.now += 1
        self._steps.ended_s.append(self.now)
        self._steps.tokens.append(tokens)

    def take_trace(self) -> EngineTrace:
        steps, self._steps = self._steps, Steps()
        return EngineTrace(steps)


def test_a_moments_disturbance_is_no_cost_of_a_step(on_its_clock: Any) -> None:
    real = EngineSpeed(0.0004, 0.04, 0.001)
    speed = probe(on_its_clock(Disturbed(real)), PROMPTS, Generation())
    assert speed.step_s == pytest.approx(real.step_s, rel=0.01)
    assert speed.request_s == pytest.approx(real.request_s, rel=0.01)


class InTwo(Disturbed):
    """Two data-parallel engines, each of which makes steps of its own for half of the requests."""

    def __init__(self, cost: EngineSpeed) -> None:
        super().__init__(cost)
        self.description.settings["data_parallel_size"] = 2

    def stepped(self, tokens: int) -> None:
        super().stepped(tokens - tokens // 2)
        self._steps.replica.append(0)
        if tokens > 1:
            self._steps.ended_s.append(self.now)
            self._steps.tokens.append(tokens // 2)
            self._steps.replica.append(1)


def test_a_step_of_data_parallel_engines_is_that_of_each_for_its_own_requests(
    on_its_clock: Any,
) -> None:
    real = EngineSpeed(0.0004, 0.04, 0.001)
    speed = probe(on_its_clock(InTwo(real)), PROMPTS, Generation())
    assert speed.step_s == pytest.approx(real.step_s, rel=0.01)
    assert speed.request_s == pytest.approx(real.request_s, rel=0.01)
    assert speed.at_once == 2 * 128


class InTurns(Disturbed):
    """An engine that works on one half of its requests, then on the other."""

    def stepped(self, tokens: int) -> None:
        for part, at_s in ((tokens // 2, self.now - 0.01), (tokens - tokens // 2, self.now)):
            self._steps.ended_s.append(at_s)
            self._steps.tokens.append(part)


def test_steps_of_a_part_of_the_requests_are_not_taken_for_full_ones(on_its_clock: Any) -> None:
    real = EngineSpeed(0.0004, 0.04, 0.001)
    speed = probe(on_its_clock(InTurns(real)), PROMPTS, Generation())
    assert speed.step_s == pytest.approx(real.step_s, rel=0.1)


def test_a_slow_engine_is_asked_for_less(on_its_clock: Any) -> None:
    token_counts, durations_s = {}, {}
    for slower in (1, 10):
        engine = on_its_clock(Clocked(EngineSpeed(0.0004 * slower, 0.04 * slower, 0.001 * slower)))
        durations_s[slower] = probe(engine, PROMPTS, Generation()).probe_s
        token_counts[slower] = sum(requests * tokens for requests, tokens in engine.batches)
    assert durations_s[1] < 6
    assert durations_s[10] < 15
    assert token_counts[10] < token_counts[1] / 2


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("at_once", [8, 128])
def test_what_it_predicts_comes_true(on_its_clock: Any, count: int, at_once: int) -> None:
    from mlperf_suite.engines.batch import generate_all

    engine = on_its_clock(Clocked(EngineSpeed(0.0004, 0.04, 0.001), at_once))
    speed = probe(engine, PROMPTS, Generation())
    before = engine.now
    generate_all(engine, PROMPTS[:count], Generation(max_new_tokens=100))
    predicted = speed.batch_s([len(p) for p in PROMPTS[:count]], 100)
    assert 1 / 1.3 < predicted / (engine.now - before) < 1.3
    if count == 1:
        assert predicted == speed.one_s(len(PROMPTS[0]), 100)
