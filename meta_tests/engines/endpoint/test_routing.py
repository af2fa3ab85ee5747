"""Which of several servers takes a request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import Answers, generate_all, requests_of
from mlperf_suite.engines.endpoint.config import EndpointConfig, Routing, parse_endpoint
from mlperf_suite.engines.endpoint.engine import EndpointEngine
from mlperf_suite.engines.protocol import EndpointFigures
from mlperf_suite.testing.options import StandIn
from mlperf_suite.testing.stand_in_server import stand_in_server

GENERATION = Generation(max_new_tokens=8)


@contextmanager
def engine_of(*servers: StandIn, routing: Routing) -> Iterator[EndpointEngine]:
    """An engine of as many servers."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        urls = [stack.enter_context(stand_in_server(server)).url for server in servers]
        targets = tuple(map(parse_endpoint, urls))
        config = EndpointConfig(targets, "stand-in", None, 32_000, routing=routing, clients=2)
        engine = EndpointEngine.load(config)
        try:
            engine.take_remote_run()
            yield engine
        finally:
            engine.close()


def told(engine: EndpointEngine) -> tuple[EndpointFigures, ...]:
    return engine.take_remote_run().endpoints


def one_after_another(engine: EndpointEngine, prompts: list[list[int]]) -> None:
    """Each request some ms after the one before it, whether that was answered or not."""
    answers = Answers(len(prompts))
    for request in requests_of(prompts):
        engine.submit([request], GENERATION, answers, stream=True)
        time.sleep(0.01)
    answers.wait(engine)


def test_round_robin_sends_to_each_in_turn() -> None:
    slow, fast = StandIn(first_token_s=0.3), StandIn()
    with engine_of(slow, fast, routing="round-robin") as engine:
        one_after_another(engine, [[1, 2, 3]] * 40)
        assert [one.requests for one in told(engine)] == [20, 20]


def test_the_server_with_fewer_tokens_outstanding_takes_the_next() -> None:
    slow, fast = StandIn(first_token_s=0.5), StandIn()
    with engine_of(slow, fast, routing="fewest-tokens") as engine:
        one_after_another(engine, [[1, 2, 3]] * 40)
        of_slow, of_fast = told(engine)
        assert of_slow.requests + of_fast.requests == 40
        assert of_slow.requests < of_fast.requests


def test_tokens_are_what_is_shared_and_not_requests() -> None:
    waits = StandIn(first_token_s=0.5)
    with engine_of(waits, waits, routing="fewest-tokens") as engine:
        generate_all(engine, [[1] * 1000, *([[1] * 90] * 10)], GENERATION)
        assert sorted(one.requests for one in told(engine)) == [1, 10]


@pytest.mark.parametrize("routing", ["round-robin", "fewest-tokens"])
def test_more_than_the_servers_may_have_at_once_is_held_and_answered(
    routing: Routing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlperf_suite.engines.endpoint.engine.AT_ONCE", 4)
    server = StandIn(first_token_s=0.02)
    with engine_of(server, server, routing=routing) as engine:
        found = generate_all(engine, [[n] for n in range(50)], GENERATION)
        assert [len(ids) for ids in found.token_ids] == [8] * 50
        run = engine.take_remote_run()
        assert sum(one.requests for one in run.endpoints) == 50


def test_waiting_for_a_server_that_is_full_is_no_delay_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mlperf_suite.engines.endpoint.engine.AT_ONCE", 2)
    with engine_of(StandIn(first_token_s=1.0), routing="fewest-tokens") as engine:
        generate_all(engine, [[1, 2, 3]] * 6, GENERATION)
        run = engine.take_remote_run()
        # The last two waited two seconds for room.
        assert run.endpoints[0].latency_ms["p99"] >= 3000
        assert run.client.out_ms is not None and run.client.out_ms < 1000
