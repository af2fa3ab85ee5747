"""Measure the processor time per request of the suite's client process, aiohttp and httpx.

    python -m perf.http_clients [--pairs 3] [--requests 2000]

Each client runs in its own process and sends the same requests of 256 token ids to a stand-in
server, 64 at once; answers have 100 tokens, streamed in two chunks, and each client runs on
uvloop and decodes the JSON of every event. The suite's client also checks token ids, times the
events and passes the answers on to the engine's process. No engine is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec
import psutil
import uvloop

from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import RunningStandIn, engine_on, stand_in_server
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.protocol import Request, Tokens
from mlperf_suite.errors import EngineError
from perf.pairs import in_turn, middle, pairs_parser, print_header, print_row

_AT_ONCE = 64
_PROMPT = [100 + i for i in range(256)]
_WARM_UP = 200
_BODY = {
    "model": "stand-in",
    "prompt": _PROMPT,
    "max_tokens": 100,
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_token_ids": True,
}


class _Counter:
    """A listener that counts the answers."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[int] = queue.SimpleQueue()

    def first_tokens(self, tokens: Sequence[Tokens]) -> None:
        """Nothing is timed here."""

    def finished(self, answers: Sequence[Tokens]) -> None:
        for _ in answers:
            self.answers.put(1)

    def failed(self, tag: int, error: EngineError) -> None:
        raise error


def _suite_cost(server: RunningStandIn, requests: int) -> float:
    """The microseconds per request of the suite's client process."""
    with engine_on(server, clients=1) as engine:
        (client,) = (c for c in psutil.Process().children() if c.pid != server.process.pid)
        counter, generation = _Counter(), Generation(max_new_tokens=100)

        def ask(count: int) -> None:
            for number in range(count + _AT_ONCE):
                if number >= _AT_ONCE:
                    counter.answers.get(timeout=30)
                if number < count:
                    engine.submit([Request(number, _PROMPT)], generation, counter, stream=True)

        ask(_WARM_UP)
        before = client.cpu_times()
        ask(requests)
        after = client.cpu_times()
    return (after.user + after.system - before.user - before.system) / requests * 1e6


def _process_cost(name: str, server: RunningStandIn, requests: int) -> float:
    """The microseconds per request of another client, in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, "--client", name, "--url", server.url]
    output = subprocess.run(
        [*command, "--requests", str(requests)], stdout=subprocess.PIPE, check=True
    ).stdout
    return float(output)


async def _ask_with_aiohttp(url: str, requests: int) -> float:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=_AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask() -> None:
            async with session.post(url, json=_BODY) as answer:
                async for line in answer.content:
                    _read(line)

        return await _spent_us(ask, requests)


async def _ask_with_httpx(url: str, requests: int) -> float:
    import httpx

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=_AT_ONCE)) as client:

        async def ask() -> None:
            async with client.stream("POST", url, json=_BODY) as answer:
                async for line in answer.aiter_lines():
                    _read(line.encode())

        return await _spent_us(ask, requests)


def _read(line: bytes) -> None:
    if line.startswith(b"data:") and b"[DONE]" not in line:
        msgspec.json.decode(line[5:])


async def _spent_us(ask: Callable[[], Awaitable[None]], requests: int) -> float:
    """This process's microseconds per request, after a warm-up."""

    async def work(count: int) -> None:
        for _ in range(count):
            await ask()

    for count in (_WARM_UP, requests):
        began = time.process_time()
        await asyncio.gather(*(work(count // _AT_ONCE) for _ in range(_AT_ONCE)))
    return (time.process_time() - began) / (requests // _AT_ONCE * _AT_ONCE) * 1e6


_OTHERS = {"aiohttp": _ask_with_aiohttp, "httpx": _ask_with_httpx}


def main() -> None:
    parser = pairs_parser(__doc__, pairs=3)
    parser.add_argument("--requests", type=int, default=2048)
    parser.add_argument("--client", choices=_OTHERS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        ask = _OTHERS[options.client](f"{options.url}/v1/completions", options.requests)
        print(uvloop.run(ask))
        return
    with stand_in_server(StandIn(tokens=100)) as server:
        sides = {"suite": partial(_suite_cost, server, options.requests)}
        for name in _OTHERS:
            sides[name] = partial(_process_cost, name, server, options.requests)
        print_header("round", *(f"{name}, us per request" for name in sides), "stolen, s")
        rounds = list(in_turn(sides, options.pairs))
    for turn in rounds:
        print_row(turn.number, *(f"{turn.results[n]:.0f}" for n in sides), f"{turn.stolen_s:.2f}")
    print_row("median", *(middle([turn.results[n] for turn in rounds]) for n in sides), "")


if __name__ == "__main__":
    main()
