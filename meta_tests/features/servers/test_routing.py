"""Which of several servers takes a request."""

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from msgspec.structs import replace

from meta_tests.features.servers.shared_stand_ins import engine_of
from meta_tests.features.servers.stand_in_options import StandIn
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import AnswerCollector, generate_all, requests_of
from mlperf_suite.engines.protocol import ClientFigures, EndpointFigures, Tokens
from mlperf_suite.features.servers.engine import EndpointEngine

GENERATION = Generation(max_new_tokens=8)
MIN_SHARE = 0.5
"""The share of a stand-in's delay that is seen at least: on a busy machine the client's stamp of
what it sent, or of the first piece, comes late."""


def figures_of(engine: EndpointEngine) -> tuple[EndpointFigures, ...]:
    return engine.take_remote_run().endpoints


def one_by_one(engine: EndpointEngine, requests: int, left: int) -> None:
    """Submit each request once at most `left` of those before it are not answered."""
    answers = AnswerCollector(requests)
    for request in requests_of([[1, 2, 3]] * requests):
        answers.wait(engine, until_waiting=requests - request.tag + left)
        engine.submit([request], GENERATION, answers, stream=True)
    answers.wait(engine)


@pytest.mark.parametrize("routing", ["round-robin", "fewest-tokens"])
def test_each_takes_its_turn_or_the_one_with_fewer_tokens_the_next(routing: str) -> None:
    with engine_of(StandIn(first_token_s=0.4), StandIn(), routing=routing) as engine:
        # One waits for the slow server, where the requests before it say where the next goes.
        one_by_one(engine, 40, left=40 if routing == "round-robin" else 1)
        of_slow, of_fast = (endpoint.requests for endpoint in figures_of(engine))
    assert of_slow + of_fast == 40
    assert (of_slow == of_fast) is (routing == "round-robin") and of_slow <= of_fast


def test_tokens_are_what_is_shared_and_not_requests() -> None:
    waits = StandIn(first_token_s=0.5)
    with engine_of(waits, waits, routing="fewest-tokens") as engine:
        generate_all(engine, [[1] * 1000, *([[1] * 90] * 10)], GENERATION)
        assert sorted(endpoint.requests for endpoint in figures_of(engine)) == [1, 10]


def client_of(*servers: StandIn, requests: int = 2) -> ClientFigures:
    """The client's figures of twice as many requests as all servers get at once, and two."""
    with engine_of(*servers, requests=requests, notes={"gpus": "8"}) as engine:
        assert engine.description.settings["requests_at_once"] == requests
        assert "'gpus': '8'" in str(engine.description.settings["server_settings"])
        prompts = [[1, 2, 3]] * (2 * requests * len(servers) + 2)
        generate_all(engine, prompts, GENERATION)
        run = engine.take_remote_run()
        # The last two waited two turns for room, from LoadGen's issue on.
        assert max(e.latency_ms["p99"] for e in run.endpoints) >= 3000 * servers[0].first_token_s
        assert run.client.out_ms is not None
        assert run.client.out_ms >= 2000 * servers[0].first_token_s
        return run.client


SLOW = StandIn(first_token_s=0.2)


@pytest.mark.parametrize(
    ("servers", "full"),
    [
        ((SLOW,), None),
        # So long that no machine takes a share of it as long.
        ((replace(SLOW, queue_s=1e6),), True),
        ((replace(SLOW, batch=3), SLOW), False),
    ],
)
def test_a_servers_batch_or_queue_shows_whether_it_had_room(
    servers: tuple[StandIn, ...], full: bool | None
) -> None:
    """What waits in the client counts from LoadGen's issue."""
    client = client_of(*servers)
    assert client.servers_full is full
    assert len(servers) > 1 or client.waited_for_room == 4


@pytest.mark.parametrize(
    ("batch", "queue_s", "full"),
    [
        (2, None, True),
        (3, None, False),
        (3, 100.0, False),
        (None, 0.5, True),
        (None, 0.49, False),
        (None, None, None),
    ],
)
def test_a_server_was_full_by_its_batch_or_by_a_twentieth_of_the_time_in_its_queue(
    batch: int | None, queue_s: float | None, full: bool | None
) -> None:
    engine = Mock(_at_once=2)
    assert EndpointEngine._was_full(engine, Mock(batch=batch), 10.0, queue_s) is full


def test_without_waiting_nobody_asks_whether_a_server_had_room() -> None:
    with engine_of(replace(SLOW, batch=9)) as engine:
        generate_all(engine, [[1, 2, 3]] * 6, GENERATION)
        client = engine.take_remote_run().client
    assert (client.waited_for_room, client.servers_full) == (0, None)


@pytest.mark.parametrize(
    ("dialect", "batch", "most"),
    [("vllm", None, 2048), ("vllm", 1000, 2048), ("sglang", 5000, 10_000)],
)
def test_a_server_gets_twice_what_it_says_it_works_on(
    dialect: Any, batch: int | None, most: int
) -> None:
    with engine_of(StandIn(dialect=dialect, batch=batch), clients=1) as engine:
        assert engine.description.settings["requests_at_once"] == most


def test_each_four_cores_have_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: list(range(8)))
    with engine_of(StandIn(), clients=None) as engine:
        assert engine.description.settings["clients"] == 2


def test_no_more_requests_than_files_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlperf_suite.features.servers.connection._MAX_FILES", 64 + 25)
    with engine_of(StandIn(), StandIn()) as engine:
        assert engine.description.settings["requests_at_once"] == 12


# The parts of a request's time


def parts_of(server: StandIn) -> tuple[tuple[str, ...], list[list[float]]]:
    """The names of the parts, and of each request how long each took, in s."""
    with engine_of(server, routing="fewest-tokens") as engine:
        engine.take_trace()
        began = time.monotonic()
        one_by_one(engine, 4, left=4)
        marks = engine.take_trace().timestamps
        assert marks is not None
        assert len(marks.tags) == 4
        assert not engine.take_trace().timestamps.tags  # type: ignore[union-attr]
    rows = list(zip(*marks.times_s, strict=True))
    assert all(began <= row[0] and list(row) == sorted(row) for row in rows)
    return marks.parts, [[b - a for a, b in pairwise(row)] for row in rows]


@pytest.mark.parametrize("tells_times", [False, True])
def test_what_a_server_tells_is_put_before_its_first_token(tells_times: bool) -> None:
    parts, rows = parts_of(StandIn(first_token_s=0.2, rest_s=0.1, tells_times=tells_times))
    assert all(sum(row) >= MIN_SHARE * 0.3 for row in rows)
    if not tells_times:
        assert parts == ("client", "until first token", "later tokens")
        assert all(until_first >= MIN_SHARE * 0.2 for until_first, _ in rows)
        return
    assert parts == ("client", "network and front end", "queue", "prefill", "decode")
    for network, queue, prefill, _ in rows:
        assert (queue, prefill) == pytest.approx((0.05, 0.1))
        # The stand-in's own quarter, and what the network took.
        assert network >= MIN_SHARE * 0.05


class _Asking(AnswerCollector):
    """A listener that asks what happened as soon as it hears of answers."""

    def __init__(self, count: int, engine: EndpointEngine) -> None:
        super().__init__(count)
        self.requests = 0
        self._engine = engine

    def finished(self, answers: Sequence[Tokens]) -> None:
        self.requests += sum(endpoint.requests for endpoint in figures_of(self._engine))
        super().finished(answers)


def test_an_answer_is_counted_before_the_run_can_end_with_it() -> None:
    with engine_of(StandIn(first_token_s=0.05), routing="fewest-tokens") as engine:
        asking = _Asking(40, engine)
        engine.submit(requests_of([[1, 2, 3]] * 40), GENERATION, asking, stream=True)
        asking.wait(engine)
        assert asking.requests == 40
