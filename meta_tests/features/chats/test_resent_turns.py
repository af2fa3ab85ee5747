"""A turn whose kept connection the server closes is sent once more, and a replay counts it."""

import asyncio
from collections.abc import Sequence

from meta_tests.features.servers.scripted_server import Server, scripted
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.features.chats.agent_replay import answered_turn, replay_summary
from mlperf_suite.features.chats.agent_sessions import RecordedTurn
from mlperf_suite.features.chats.chat import ChatRequest
from mlperf_suite.features.chats.chat_client import ChatClient, ChatTurn
from mlperf_suite.features.servers.config import parse_endpoint


def chat(script: Sequence[str], count: int) -> tuple[ChatTurn, Server]:
    """The last of so many turns, one after another."""

    async def ask() -> tuple[ChatTurn, Server]:
        async with scripted(script) as (server, port):
            client = ChatClient(parse_endpoint(f"http://127.0.0.1:{port}"), "m", connections=1)
            request = ChatRequest([{"role": "user", "content": "Hello"}], Generation(1))
            for _ in range(count):
                turn = await client.ask(request)
            return turn, server

    return asyncio.run(ask())


def test_a_turn_on_a_kept_connection_that_was_closed_is_sent_once_more() -> None:
    turn, server = chat(["answer", "close", "answer"], 2)
    assert (turn.failure, turn.answer.content, turn.resent) == ("", "a", True)
    assert [connection for connection, _ in server.seen] == [1, 1, 2]
    assert turn.sent <= server.seen[1][1]
    # And a replay counts it.
    recorded = RecordedTurn(1, (), {"role": "assistant", "content": "a"}, 0.0)
    figures = [answered_turn("a", n, recorded, turn) for n in (1, 2)]
    assert replay_summary(figures)["resent"] == 2
    for script in (["answer", "close", "close"], ["answer", "begin"]):
        turn, server = chat(script, 2)
        assert turn.failure.startswith("closed the connection")
        assert len(server.seen) == len(script)
