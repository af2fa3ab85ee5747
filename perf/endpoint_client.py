"""Measure what the client of endpoints costs, with a stand-in server on the same cores.

    python -m perf.endpoint_client

First table: the highest rate held without losses in LoadGen's Server scenario by the suite's client
and by a plain aiohttp client. Answers have 100 tokens, streamed as a first token and the rest in
one chunk, or as one chunk per token within a second. A rate is held if 97% of it is completed in
each second and the latency p99 is at most 10 ms above the server's own delay. Each rate is shown
with the share of one core that each process used; the suite's process includes LoadGen and the
plain client. Second table: TTFT p99 at 200 queries/s, less that of LoadGen with a SUT that answers
inside its callback, alternating, with the time that other guests took from the machine. No engine
is measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from statistics import median

import psutil

from meta_tests.servers.options import StandIn
from meta_tests.servers.stand_in_server import RunningStandIn, stand_in_server
from mlperf_suite.engines.endpoint.config import EndpointConfig, parse_endpoint
from mlperf_suite.engines.endpoint.engine import EndpointEngine
from mlperf_suite.engines.protocol import Engine, RemoteEngine
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen import runner
from perf.plain_aiohttp_engine import PlainAiohttpEngine
from perf.server_overhead import ANSWER, held, loadgen_alone, served, stolen_s, ttft_ms

_RATES = (250, 500, 750, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000)
_TTFT_RATE = 200
_TWO_CHUNKS = StandIn(tokens=len(ANSWER))
_EACH_TOKEN = StandIn(tokens=len(ANSWER), chunk_tokens=1, rest_s=1.0)
_VOCABULARY = 32_000


def _endpoint(server: RunningStandIn) -> EndpointEngine:
    target = parse_endpoint(server.url)
    return EndpointEngine.load(EndpointConfig((target,), "stand-in", None, _VOCABULARY))


def _plain(server: RunningStandIn) -> PlainAiohttpEngine:
    return PlainAiohttpEngine(server.url)


class _Used:
    """The processor time of this process, the server and the clients since this was created."""

    def __init__(self, server: RunningStandIn) -> None:
        self._began = time.monotonic()
        self._server = server.process.pid
        self._before = self._now()

    def _now(self) -> dict[str, float]:
        used = {"suite": _cpu_s(psutil.Process()), "server": 0.0, "clients": 0.0}
        for child in psutil.Process().children():
            used["server" if child.pid == self._server else "clients"] += _cpu_s(child)
        return used

    def shares(self) -> str:
        """The share of one core that each used."""
        elapsed, now = time.monotonic() - self._began, self._now()
        return ", ".join(
            f"{name} {(now[name] - self._before[name]) / elapsed:.0%}" for name in sorted(now)
        )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def _engine_on(
    options: StandIn, load: Callable[[RunningStandIn], Engine]
) -> Iterator[tuple[Engine, RunningStandIn]]:
    with stand_in_server(options) as server, closing(load(server)) as engine:
        yield engine, server


def _highest(
    name: str,
    options: StandIn,
    load: Callable[[RunningStandIn], Engine],
    rates: Sequence[int],
    prompt: Sequence[int],
    seconds: float,
) -> None:
    highest = 0
    for rate in rates:
        if runner.abandoned():
            print("  a run did not end: start again for the rest")
            return
        with _engine_on(options, load) as (engine, server):
            used, stolen = _Used(server), stolen_s()
            try:
                ok, seen = held(
                    rate,
                    served(engine, rate, round(seconds * 1000), prompt),
                    (options.first_token_s + options.rest_s) * 1000,
                )
            except RunError as error:
                ok, seen = False, f"lost: {error}"
            shares, taken = used.shares(), stolen_s() - stolen
            delays = _own_delays(engine)
        print(
            f"  {name}: {rate:,} queries/s: {seen}, {'held' if ok else 'not held'}; "
            f"of a core: {shares}; {delays}stolen {taken:.2f} s",
            flush=True,
        )
        if not ok:
            break
        highest = rate
    print(f"  {name} holds {highest:,} queries/s", flush=True)


def _own_delays(engine: Engine) -> str:
    if not isinstance(engine, RemoteEngine):
        return ""
    client = engine.take_remote_run().client
    return f"out {client.out_ms} ms, back {client.back_ms} ms at p99; "


def _added(pairs: int, prompt: Sequence[int], seconds: float) -> None:
    print(f"TTFT p99 at {_TTFT_RATE} queries/s, ms:")
    print("| pair | suite | LoadGen alone | added | out p99 | back p99 | stolen, s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    differences = []
    with _engine_on(_TWO_CHUNKS, _endpoint) as (engine, _):
        assert isinstance(engine, RemoteEngine)
        for pair in range(1, pairs + 1):
            stolen, duration_ms = stolen_s(), round(seconds * 1000)
            engine.take_remote_run()
            # The order changes, so that neither always goes first.
            alone = ttft_ms(loadgen_alone(_TTFT_RATE, duration_ms)) if pair % 2 else None
            suite = ttft_ms(served(engine, _TTFT_RATE, duration_ms, prompt))
            if alone is None:
                alone = ttft_ms(loadgen_alone(_TTFT_RATE, duration_ms))
            client = engine.take_remote_run().client
            differences.append(suite - alone)
            print(
                f"| {pair} | {suite:.3f} | {alone:.3f} | {suite - alone:.3f} | {client.out_ms} "
                f"| {client.back_ms} | {stolen_s() - stolen:.2f} |",
                flush=True,
            )
    low, high = min(differences), max(differences)
    print(f"| median | | | **{median(differences):.3f}** ({low:.3f} to {high:.3f}) | | | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each rate")
    parser.add_argument("--ttft-seconds", type=float, default=20.0, help="of each side of a pair")
    parser.add_argument("--prompt-tokens", type=int, default=256)
    parser.add_argument("--rates", type=int, nargs="+", default=_RATES)
    chosen = parser.parse_args()
    prompt = [100 + i % 1000 for i in range(chosen.prompt_tokens)]
    print(f"highest rate, prompts of {len(prompt)} tokens, answers of {len(ANSWER)}:")
    for chunks, options in (("two chunks", _TWO_CHUNKS), ("a chunk a token", _EACH_TOKEN)):
        for name, load in (("suite", _endpoint), ("plain aiohttp", _plain)):
            _highest(f"{name}, {chunks}", options, load, chosen.rates, prompt, chosen.seconds)
    _added(chosen.pairs, prompt, chosen.ttft_seconds)


if __name__ == "__main__":
    main()
