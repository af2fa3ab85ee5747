"""Measure what the client of endpoints costs, with a stand-in server on the same cores.

    python -m perf.endpoint_client

First table: the highest rate held without losses in LoadGen's Server scenario. Answers have 100
tokens, streamed as a first token and the rest in one chunk, or as one chunk per token within a
second. A rate is held if 97% of it is completed in each second and the latency p99 is at most 10 ms
above the server's own delay. Each rate is shown with the share of one core that each process used;
the suite's process includes LoadGen. Second table: TTFT p99 at 200 queries/s, less that of LoadGen
with a SUT that answers inside its callback, alternating, with the time that other guests took from
the machine. No engine is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import psutil

from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import RunningStandIn, engine_on, stand_in_server
from mlperf_suite.errors import RunError
from mlperf_suite.features.servers.engine import EndpointEngine
from mlperf_suite.loadgen import runner
from perf.pairs import pairs_parser, print_header, print_row, stolen_s
from perf.server_load import ANSWER, completed_rate, is_held, latency_ms, print_added_ttft, serve_at

_RATES = (250, 500, 750, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000)
_TWO_CHUNKS = StandIn(tokens=len(ANSWER))
_EACH_TOKEN = StandIn(tokens=len(ANSWER), chunk_tokens=1, rest_s=1.0)
_PROCESSES = ("clients", "suite", "server")


class _CpuShares:
    """The processor time of this process, the server and the clients since this was created."""

    def __init__(self, server: RunningStandIn) -> None:
        self._began = time.monotonic()
        self._server = server.process.pid
        self._before = self._now()

    def _now(self) -> dict[str, float]:
        cpu_s = dict.fromkeys(_PROCESSES, 0.0)
        cpu_s["suite"] = _cpu_s(psutil.Process())
        for child in psutil.Process().children():
            cpu_s["server" if child.pid == self._server else "clients"] += _cpu_s(child)
        return cpu_s

    def cells(self) -> list[str]:
        """The share of one core that each used."""
        elapsed, now = time.monotonic() - self._began, self._now()
        return [f"{(now[name] - self._before[name]) / elapsed:.0%}" for name in _PROCESSES]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def _engine_on(options: StandIn) -> Iterator[tuple[EndpointEngine, RunningStandIn]]:
    with stand_in_server(options) as server, engine_on(server) as engine:
        yield engine, server


def _print_rates(
    options: StandIn, rates: Sequence[int], prompt: Sequence[int], seconds: float
) -> None:
    """A row for each rate, until one is not held."""
    columns = "completed", "latency p99, ms", "held", "client", "suite and LoadGen", "server"
    print_header("queries/s", *columns, "out p99, ms", "back p99, ms", "stolen, s")
    for rate in rates:
        if runner.abandoned():
            print("  a run did not end: start the program again for the rest")
            return
        if not _print_rate(options, rate, prompt, seconds):
            return


def _print_rate(options: StandIn, rate: int, prompt: Sequence[int], seconds: float) -> bool:
    """Whether the rate was held."""
    with _engine_on(options) as (engine, server):
        cpu, stolen = _CpuShares(server), stolen_s()
        try:
            detail = serve_at(engine, rate, round(seconds * 1000), prompt)
        except RunError as error:
            print_row(f"{rate:,}", f"lost: {error}", *[""] * 8)
            return False
        shares, stolen_during = cpu.cells(), stolen_s() - stolen
        client = engine.take_remote_run().client
    ok = is_held(rate, detail, delay_ms=(options.first_token_s + options.rest_s) * 1000)
    figures = f"{completed_rate(detail) or 0:,.0f}", f"{latency_ms(detail) or 0:.2f}"
    delays = client.out_ms, client.back_ms, f"{stolen_during:.2f}"
    print_row(f"{rate:,}", *figures, "yes" if ok else "no", *shares, *delays)
    return ok


def main() -> None:
    parser = pairs_parser(__doc__, pairs=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each rate")
    parser.add_argument("--ttft-seconds", type=float, default=20.0, help="of each side of a pair")
    parser.add_argument("--prompt-tokens", type=int, default=256)
    parser.add_argument("--rates", type=int, nargs="+", default=_RATES)
    options = parser.parse_args()
    prompt = [100 + i % 1000 for i in range(options.prompt_tokens)]
    for name, answers in (("two chunks", _TWO_CHUNKS), ("one chunk per token", _EACH_TOKEN)):
        print(f"\nprompts of {len(prompt)} tokens, answers of {len(ANSWER)} in {name}:\n")
        _print_rates(answers, options.rates, prompt, options.seconds)
    with _engine_on(_TWO_CHUNKS) as (engine, _):
        serve = partial(serve_at, engine, prompt=prompt)
        print_added_ttft("suite", serve, options.pairs, options.ttft_seconds, "at most 2")


if __name__ == "__main__":
    main()
