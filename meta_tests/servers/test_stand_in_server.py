"""The stand-in server speaks as the real ones do, fails as it is told to, and always ends."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from meta_tests.servers.options import FAULTS, StandIn
from meta_tests.servers.replies import SERVER, read_request, reply
from meta_tests.servers.shared_stand_ins import shared_stand_ins
from meta_tests.servers.stand_in_server import RunningStandIn, stand_in_server
from meta_tests.suite_runs import ROOT, still_running
from mlperf_suite.errors import SuiteError

COMPLETIONS = "/v1/completions"
ASKED: dict[str, Any] = {"model": "stand-in", "prompt": [7, 8, 9], "max_tokens": 6}
STREAMED = {**ASKED, "stream": True, "stream_options": {"include_usage": True}}
WITH_IDS = {**STREAMED, "return_token_ids": True}
NATIVE = {"input_ids": [7, 8, 9], "sampling_params": {"max_new_tokens": 6}, "stream": True}
IDS = [100, 101, 102, 103, 104, 105]
WORDS = "each answer measures nothing besides clients "


@contextmanager
def shared(options: StandIn) -> Iterator[RunningStandIn]:
    """A server for questions alone; see `shared_stand_ins`."""
    (server,) = shared_stand_ins(options)
    yield server


def ask(
    server: RunningStandIn, path: str, body: object = None, **headers: str
) -> tuple[int, bytes]:
    """Status and whole body of one request, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, content, headers)
        response = connection.getresponse()
        assert response.headers["Server"] == SERVER
        return response.status, response.read()
    finally:
        connection.close()


def events(data: bytes) -> list[Any]:
    """The messages of a stream, which ends as all these servers end theirs."""
    lines = [line for line in data.decode().splitlines() if line.startswith("data: ")]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def ids_of(messages: list[Any]) -> list[Any]:
    return [choice["token_ids"] for choice in choices(messages)]


def choices(messages: list[Any]) -> list[Any]:
    return [choice for message in messages for choice in message["choices"]]


def test_vllm_streams_token_ids_as_deltas_and_the_usage_last() -> None:
    with shared(StandIn(chunk_tokens=2)) as server:
        status, data = ask(server, COMPLETIONS, {**WITH_IDS, "cache_salt": "a", "seed": 1})
        *chunks, last = events(data)
        version = json.loads(ask(server, "/version")[1])
        models = json.loads(ask(server, "/v1/models")[1])["data"]
        assert ask(server, "/health") == (200, b"")
    assert status == 200
    assert ids_of(chunks) == [[100], IDS[1:3], IDS[3:5], [105]]
    assert [choice["prompt_token_ids"] for choice in choices(chunks)] == [[7, 8, 9], *[None] * 3]
    assert [choice["finish_reason"] for choice in choices(chunks)] == [*[None] * 3, "length"]
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 3, "total_tokens": 9, "completion_tokens": 6}
    assert version["version"]
    assert [(card["id"], card["root"], card["max_model_len"]) for card in models] == [
        ("stand-in", "stand-in", 131_072)
    ]


def test_the_rest_comes_in_one_chunk_and_only_what_was_asked_for() -> None:
    with shared(StandIn(tokens=4)) as server:
        with_ids = events(ask(server, COMPLETIONS, WITH_IDS)[1])
        without = events(ask(server, COMPLETIONS, {**ASKED, "stream": True})[1])
        whole = json.loads(ask(server, COMPLETIONS, ASKED)[1])
    assert ids_of(with_ids) == [[100], IDS[1:4]]
    assert choices(with_ids)[-1]["finish_reason"] == "stop"
    assert ids_of(without) == [None, None]
    assert len(without) == 2, "a usage that nobody asked for"
    assert whole["choices"][0]["text"] == "each answer measures nothing "
    assert whole["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        ("cumulative", [IDS[:1], IDS[:3], IDS[:5], IDS]),
        ("delta", [IDS[:1], IDS[1:3], IDS[3:5], IDS[5:]]),
        ("shrinking", [IDS[:1], IDS[:3], IDS[:2], IDS]),
    ],
)
def test_sglang_streams_its_ids_in_each_of_its_ways(kind: Any, ids: list[list[int]]) -> None:
    options = StandIn(dialect="sglang", chunk_tokens=2, sglang_ids=kind)
    with shared(options) as server:
        messages = events(ask(server, "/generate", NATIVE)[1])
    assert [message["output_ids"] for message in messages] == ids
    counts = [message["meta_info"]["completion_tokens"] for message in messages]
    assert counts == [1, 3, 5, 6]
    assert messages[0]["meta_info"]["finish_reason"] is None
    assert messages[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 6}
    assert messages[-1]["meta_info"]["prompt_tokens"] == 3


def test_tensorrt_gives_token_ids_without_detokenizing_and_refuses_unknown_fields() -> None:
    with shared(StandIn(dialect="tensorrt-llm")) as server:
        *chunks, last = events(ask(server, COMPLETIONS, {**STREAMED, "detokenize": False})[1])
        words = choices(events(ask(server, COMPLETIONS, STREAMED)[1]))
        status, data = ask(server, COMPLETIONS, WITH_IDS)
        assert ask(server, "/generate", NATIVE)[0] == 404
    assert ids_of(chunks) == [IDS[:1], IDS[1:]]
    assert "".join(choice["text"] for choice in choices(chunks)) == ""
    assert last["usage"]["completion_tokens"] == 6
    assert "".join(choice["text"] for choice in words) == WORDS
    assert status == 400
    assert "return_token_ids" in json.loads(data)["error"]["message"]


def test_vllms_route_for_token_ids_is_mounted_only_on_request() -> None:
    params = {"max_tokens": 6, "detokenize": False}
    body = {"token_ids": [7, 8, 9], "sampling_params": params, "model": "stand-in"}
    streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
    path = "/inference/v1/generate"
    with shared(StandIn(scale_out=True, chunk_tokens=2)) as server:
        *chunks, last = events(ask(server, path, streamed)[1])
        whole = json.loads(ask(server, path, body)[1])
        assert ask(server, path, {})[0] == 400
    assert ids_of(chunks) == [[100], IDS[1:3], IDS[3:5], [105]]
    assert [choice["finish_reason"] for choice in choices(chunks)] == [*[None] * 3, "length"]
    assert last["usage"] == {"prompt_tokens": 3, "total_tokens": 9, "completion_tokens": 6}
    assert all("text" not in choice for choice in choices([*chunks, whole]))
    assert all("model" not in message for message in (*chunks, whole))
    assert choices([whole])[0]["token_ids"] == IDS
    for options, status in ((StandIn(), 403), (StandIn(dialect="sglang"), 404)):
        with shared(options) as server:
            assert ask(server, path, streamed)[0] == status
            assert server.account()["completions"] == 0


def test_transformers_takes_a_generation_config_and_refuses_unknown_fields() -> None:
    body = {"model": "stand-in", "prompt": "one two", "max_tokens": 6, "stream": True}
    least = {"generation_config": json.dumps({"max_new_tokens": 3, "min_new_tokens": 5})}
    with shared(StandIn(dialect="transformers", tokens=2)) as server:
        short, longer = (
            ask(server, COMPLETIONS, {**body, **addition})[1] for addition in ({}, least)
        )
        statuses = [
            ask(server, COMPLETIONS, {**body, **addition})[0]
            for addition in ({"top_k": 1}, {"prompt": [7, 8]}, {"model": "other"})
        ]
    assert statuses == [422, 422, 400]
    # Its stream ends without a last word.
    chunks = [
        [json.loads(line[6:]) for line in answer.splitlines() if line] for answer in (short, longer)
    ]
    counts = [messages[-1]["usage"]["completion_tokens"] for messages in chunks]
    assert counts == [2, 5]
    finishes = [choice["finish_reason"] for choice in choices(chunks[0])]
    assert finishes == [None, None, "stop"]


def test_idle_connections_are_kept_and_closed_as_told() -> None:
    for fault, connections in ((None, 1), ("closes-idle", 2)):
        with stand_in_server(StandIn(fault=fault)) as server:  # type: ignore[arg-type]
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            for _ in range(2):
                connection.request("POST", COMPLETIONS, json.dumps(STREAMED))
                response = connection.getresponse()
                assert response.headers["Connection"] is None
                response.read()
                if fault:
                    assert connection.sock.recv(1) == b""
                    connection.close()
            # One more asks what was seen.
            assert server.account()["connections"] == connections + 1
            connection.close()


def test_every_fault_is_answered_with_something_else_than_a_right_answer() -> None:
    """No name without an effect; `closes-idle` shows on the connection alone."""
    right = _bytes_sent(StandIn())
    for fault in FAULTS:
        if fault not in ("closes-idle", "no-answer", "dies"):
            assert _bytes_sent(StandIn(fault=fault)) != right, fault


def _bytes_sent(options: StandIn) -> bytes:
    request = read_request(options, COMPLETIONS, json.dumps(WITH_IDS).encode())
    answer = reply(options, request, options.fault)
    return answer.head + b"".join(answer.parts)


def test_nothing_is_left_after_the_context_or_an_exception() -> None:
    with stand_in_server() as server:
        process = psutil.Process(server.process.pid)
    assert still_running([process]) == []
    with pytest.raises(KeyError), stand_in_server() as server:
        process = psutil.Process(server.process.pid)
        raise KeyError
    assert still_running([process]) == []


def test_nothing_is_left_when_the_parent_is_killed() -> None:
    program = (
        "from meta_tests.servers.stand_in_server import stand_in_server\n"
        "with stand_in_server() as server:\n"
        "    print(server.process.pid, flush=True)\n"
        "    input()\n"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program]
    parent = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))
    assert still_running([server])
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    psutil.wait_procs([server], timeout=30)
    assert still_running([server]) == []


def test_a_server_that_does_not_start_says_so() -> None:
    without_file = stand_in_server(StandIn(certificate="/none"))
    with pytest.raises(SuiteError, match="did not start"), without_file:
        pass
