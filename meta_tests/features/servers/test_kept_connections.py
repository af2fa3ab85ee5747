"""A server may close a connection that it kept, just as the next request is sent on it."""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock, patch

import pytest

from meta_tests.features.servers.scripted_server import Server, scripted
from meta_tests.features.servers.wire import Wire
from mlperf_suite.engines.messages import (
    Failure,
    Sampling,
    ServerAddress,
    ServerAnswer,
    WorkerConfig,
)
from mlperf_suite.features.servers.adapters import ADAPTERS
from mlperf_suite.features.servers.connection import Connection, Pool
from mlperf_suite.features.servers.http_requests import GenerationRequest, HttpWorkerState

GUARD_S = 120.0
LOST = "closed the connection without an answer"


class Requests:
    """Requests of a client process on at most so many connections, and what came of each."""

    def __init__(self, port: int, connections: int) -> None:
        place = ServerAddress(
            "h", "127.0.0.1", port, False, "h", "/v1/completions", "/v1/completions"
        )
        terms: tuple[Any, ...] = (None, {}, None, None, 100, None, connections, 60.0)
        worker_config = WorkerConfig([place], "vllm", "m", *terms)
        self.pool = Pool(place, b"", connections, None)
        self.told: dict[int, Any] = {}
        self._shared = HttpWorkerState(
            worker_config, ADAPTERS["vllm"], None, [self.pool], self._tell
        )

    def _tell(self, message: Any) -> None:
        self.told[message.number] = message

    def start(self, number: int) -> None:
        sampling = Sampling(1, 1, 0.0, 1.0, 1, 42, wants_first=False)
        GenerationRequest(self._shared, number, 0, array("i", [1]).tobytes(), sampling).start()

    async def outcome(self, number: int) -> Any:
        await happens(lambda: number in self.told)
        return self.told[number]


async def happens(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(GUARD_S):
        while not condition():
            await asyncio.sleep(0.001)


def one_after_another(script: Sequence[str], count: int) -> tuple[Any, Server]:
    """What came of the last of so many requests, all on one connection as long as it is kept."""

    async def ask() -> tuple[Any, Server]:
        async with scripted(script) as (server, port):
            requests = Requests(port, connections=1)
            for number in range(count):
                requests.start(number)
                told = await requests.outcome(number)
            return told, server

    return asyncio.run(ask())


def test_a_request_on_a_kept_connection_that_was_closed_is_sent_once_more_on_a_new_one() -> None:
    """Before those that wait."""

    async def ask() -> tuple[list[Any], Server]:
        async with scripted(["answer", "close", "answer", "answer"]) as (server, port):
            requests = Requests(port, connections=1)
            for number in range(3):
                requests.start(number)
            return [await requests.outcome(number) for number in range(3)], server

    answers, server = asyncio.run(ask())
    assert [answer.resent for answer in answers] == [0, 1, 0]
    assert [connection for connection, _ in server.seen] == [1, 1, 2, 2]
    # Only the first had to wait for a connection to be opened before it was sent: the time of the
    # second counts from its first sending, and opening the new connection belongs to it.
    assert [answer.connecting > 0 for answer in answers] == [True, False, False]
    assert answers[1].sent <= server.seen[1][1]
    assert answers[1].arrived <= answers[2].sent


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (["close"], LOST),
        (["answer", "close", "close"], LOST),
        (["answer", "begin"], "closed the connection in the middle of an answer"),
        (["answer", "close", "begin"], "closed the connection in the middle of an answer"),
    ],
    ids=["on a new connection", "twice", "after a byte", "after a byte of the second answer"],
)
def test_any_other_loss_is_one(script: list[str], why: str) -> None:
    failure, server = one_after_another(script, 1 + ("answer" in script))
    assert failure == Failure(1 if "answer" in script else 0, why, died=True)
    assert len(server.seen) == len(script)


def test_a_connection_that_is_lost_while_it_is_opened_fails_its_request_at_once() -> None:
    """An event loop may tell of the loss before it returns the connection."""

    async def lost(make: Callable[[], Connection], *place: Any, **options: Any) -> Any:
        connection = make()
        connection.connection_made(Mock(write=Mock(side_effect=RuntimeError("closed"))))
        connection.connection_lost(None)
        return None, connection

    async def ask() -> tuple[Any, Pool]:
        requests = Requests(1, connections=2)
        with patch.object(asyncio.get_running_loop(), "create_connection", lost):
            requests.start(0)
            return await requests.outcome(0), requests.pool

    told, pool = asyncio.run(ask())
    assert told == Failure(0, LOST, died=True)
    assert not pool._open and not pool._idle


def test_a_body_that_goes_on_after_the_answer_delays_nobody() -> None:
    async def ask() -> tuple[list[Any], Server]:
        async with scripted(["linger"] * 3) as (server, port):
            requests = Requests(port, connections=1)
            requests.start(0)
            told = [await requests.outcome(0)]
            # As soon as one was too late, no other one is waited for.
            await happens(lambda: requests.pool._closes_late)
            requests.start(1)
            requests.start(2)
            return [*told, await requests.outcome(1), await requests.outcome(2)], server

    told, server = asyncio.run(ask())
    assert [type(message) for message in told] == [ServerAnswer] * 3
    assert [connection for connection, _ in server.seen] == [1, 2, 3]


def test_who_is_given_which_connection() -> None:
    async def give() -> None:
        pool = Requests(1, connections=3).pool
        again, waits, seeker = (Mock(is_over=False) for _ in range(3))
        first, kept, new = (Connection(Mock(), Mock()) for _ in range(3))
        kept.kept = True
        over = Mock(is_over=False)
        pool.acquire(over)
        over.is_over = True
        pool.acquire(over)
        pool.acquire(waits)
        pool.acquire_new(again)
        pool.release(first)
        again.begin.assert_called_once_with(first)
        pool.acquire_new(again)
        pool.release(kept)
        waits.begin.assert_called_once_with(kept)
        over.begin.assert_not_called()
        pool.forget_waiting()
        pool.release(new)
        assert (again.begin.call_count, waits.begin.call_count, new.kept) == (1, 1, True)
        # The server may have closed every idle one.
        pool.acquire_new(again)
        assert not pool._idle and new._closed
        # Nor is one used that was idle for long.
        young, old = Connection(Mock(), Mock()), Connection(Mock(), Mock())
        pool = Requests(1, connections=2).pool
        for connection in (young, old):
            connection.connection_made(Wire())
            pool.release(connection)
        old.idle_since -= 3.0
        young.idle_since += GUARD_S
        pool.acquire(seeker)
        seeker.begin.assert_called_once_with(young)
        assert old._closed and not young._closed

    asyncio.run(give())
