"""Measure what the suite itself adds in Server to LoadGen with a SUT that answers at once.

    python -m perf.server_overhead [--pairs 5] [--seconds 2] [--ttft-seconds 10]

LoadGen alone answers inside its callback, which no suite can beat. The suite is LoadGen, the SUT
and an engine that answers at once, on its own thread like real engines, or with --in-call within
the SUT's call, as LoadGen alone does. Each query streams a first token and an answer of 100 tokens.
Both are measured in turn, a pair within the same half minute, since other load on the machine
changes either by as much as is measured. First table: the time to first token at 200 queries/s.
Second table: the highest rate held, of which 97% is completed in each second with a latency p99 of
at most 10 ms; a rate that was not held is tried once more. Each pair shows the time that other
guests took from the machine. No engine is measured.
"""

from __future__ import annotations

import argparse
import math
import queue
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import mlperf_loadgen as lg
import numpy as np
import psutil

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.protocol import Engine, EngineDescription, Listener, Request
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened, plan_run
from mlperf_suite.loadgen.logs import DetailLog, read_logs

SAMPLES = 1000
ANSWER = list(range(100))
_TTFT_RATE = 200
_HELD_LATE_MS = 10.0
_HELD_SHARE = 0.97
_STEP = 1.05
_START_RATE, _LEAST_RATE = 10_000.0, 100.0


def server_plan(rate: float, duration_ms: int, samples: int = SAMPLES) -> LoadPlan:
    """Server at a rate in queries/s, for this duration, each sample at least once."""
    return plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Server"),
        "performance",
        ROUNDS[DEFAULT_ROUND],
        samples,
        target_qps=rate,
        shortened=Shortened(duration_ms, 1, latency_percent=99),
    )


def served(
    engine: Engine,
    rate: float,
    duration_ms: int,
    prompt: Sequence[int] = (1, 2, 3),
    samples: int = SAMPLES,
) -> DetailLog:
    """The log of a Server run on an engine, each query with this prompt. Raises RunError."""
    plan = server_plan(rate, duration_ms, samples)
    prompts = [prompt] * samples
    with tempfile.TemporaryDirectory() as folder:
        run = runner.run_loadgen(plan, engine, prompts, Generation(), Path(folder))
    return run.logs.detail


def loadgen_alone(rate: float, duration_ms: int) -> DetailLog:
    """LoadGen with a SUT that answers inside its callback: what no suite can beat."""
    answer = np.asarray(ANSWER, dtype=np.int32)

    def issue(samples: Sequence[Any]) -> None:
        for sample in samples:
            address = answer.ctypes.data
            lg.FirstTokenComplete([lg.QuerySampleResponse(sample.id, address, 4)])
            whole = lg.QuerySampleResponse(sample.id, address, answer.nbytes, len(answer))
            lg.QuerySamplesComplete([whole])

    plan = server_plan(rate, duration_ms)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        conf = folder / runner.USER_CONF
        conf.write_text(plan.user_conf_text())
        sut = lg.ConstructSUT(issue, lambda: None)
        qsl = lg.ConstructQSL(SAMPLES, SAMPLES, lambda _: None, lambda _: None)
        settings, log = runner.loadgen_settings(plan, conf), runner.log_settings(folder)
        lg.StartTestWithLogSettings(sut, qsl, settings, log, str(folder / runner.AUDIT_CONF))
        lg.DestroyQSL(qsl)
        lg.DestroySUT(sut)
        return read_logs(folder).detail


def held(rate: float, detail: DetailLog, delay_ms: float = 0.0) -> tuple[bool, str]:
    """Whether the rate was held, and what was seen. `delay_ms`: the minimum time of an answer, by
    which the run outlasts LoadGen's issuing of queries."""
    late = detail.milliseconds("result_99.00_percentile_latency_ns")
    completed = detail.number("result_completed_samples_per_sec")
    if late is None or completed is None:
        return False, "nothing reported"
    issuing_ms = detail.number("effective_min_duration_ms") or 1
    least = _HELD_SHARE * rate / (1 + delay_ms / issuing_ms)
    ok = late <= delay_ms + _HELD_LATE_MS and completed >= least
    return ok, f"completed {completed:,.0f} queries/s, p99 {late:.2f} ms"


class InstantEngine:
    """Answers each request at once, on its own thread or within the call that submits it."""

    description = EngineDescription("instant engine", "1", "instant", True, 131_072)
    alive = True

    def __init__(self, *, in_call: bool = False) -> None:
        self._in_call = in_call
        self._asked: queue.SimpleQueue[tuple[Listener, Sequence[Request], bool] | None]
        self._asked = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="instant engine", daemon=True)
        self._thread.start()

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        if self._in_call:
            _answer(listener, requests, stream)
        else:
            self._asked.put((listener, requests, stream))

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            _answer(*asked)

    def abort(self) -> None:
        """Do nothing, since no request waits for long."""

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join(5)


def _answer(listener: Listener, requests: Sequence[Request], stream: bool) -> None:
    if stream:
        listener.first_tokens([(request.tag, ANSWER[:1]) for request in requests])
    listener.finished([(request.tag, ANSWER) for request in requests])


def stolen_s() -> float:
    """Seconds that other guests took from this machine since it started."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


def ttft_ms(detail: DetailLog, percentile: str = "99.00") -> float:
    """TTFT as LoadGen reports it, in ms. Raises RunError if it reports none."""
    found = detail.milliseconds(f"result_first_token_{percentile}_percentile_latency_ns")
    if found is None:
        raise RunError("LoadGen reported no TTFT")
    return found


Serve = Callable[[float, int], DetailLog]
"""Makes a run at a rate in queries/s for a duration in ms."""


def in_turn(pair: int, suite: Callable[[], float], alone: Callable[[], float]) -> list[float]:
    """Measure both and return the suite's figure first; the order changes from pair to pair."""
    if pair % 2:
        return [suite(), alone()]
    other = alone()
    return [suite(), other]


def _added(suite: Serve, pairs: int, seconds: float) -> None:
    print(f"\nTTFT at {_TTFT_RATE} queries/s, ms:\n", flush=True)
    print("| pair | suite p50 | p99 | LoadGen alone p50 | p99 | p99 added | stolen, s |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    duration_ms, added = round(seconds * 1000), []
    p50: dict[str, float] = {}

    def p99_of(name: str, serve: Serve) -> float:
        detail = serve(_TTFT_RATE, duration_ms)
        p50[name] = ttft_ms(detail, "50.00")
        return ttft_ms(detail)

    for pair in range(1, pairs + 1):
        stolen = stolen_s()
        one, other = in_turn(
            pair, partial(p99_of, "suite", suite), partial(p99_of, "alone", loadgen_alone)
        )
        added.append(one - other)
        print(
            f"| {pair} | {p50['suite']:.3f} | {one:.3f} | {p50['alone']:.3f} | {other:.3f} "
            f"| {one - other:.3f} | {stolen_s() - stolen:.2f} |",
            flush=True,
        )
    print(
        f"| median | | | | | **{median(added):.3f}** ({min(added):.3f} to {max(added):.3f}; "
        "aim: at most 0.300) | |"
    )


def highest_held(serve: Serve, seconds: float, start: float) -> float:
    """The highest rate held among steps of 5%, in queries/s, searched from `start`; 0 for none."""
    rate, best, ceiling = start, 0.0, math.inf
    while rate > _LEAST_RATE:
        # A rate may fail because of other load at that moment.
        ok = any(held(rate, serve(rate, round(seconds * 1000)))[0] for _ in range(2))
        best, ceiling = (rate, ceiling) if ok else (best, rate)
        if not best or math.isinf(ceiling):
            rate = rate * _STEP**4 if ok else rate / _STEP**4
            continue
        steps = round(math.log(ceiling / best, _STEP))
        if steps <= 1:
            break
        # Halve between held and not held until they are one step apart.
        rate = best * _STEP ** (steps // 2)
    return best


def _rates(suite: Serve, pairs: int, seconds: float) -> None:
    print("\nhighest rate held, queries/s:\n", flush=True)
    print("| pair | suite | LoadGen alone | suite / alone | stolen, s |")
    print("|---|---:|---:|---:|---:|", flush=True)
    shares = []
    start = {"suite": _START_RATE, "alone": _START_RATE}

    def highest(name: str, serve: Serve) -> float:
        # A pair begins at the rate where the previous one ended.
        start[name] = highest_held(serve, seconds, start[name]) or _START_RATE
        return start[name]

    for pair in range(1, pairs + 1):
        stolen = stolen_s()
        one, other = in_turn(
            pair, partial(highest, "suite", suite), partial(highest, "alone", loadgen_alone)
        )
        shares.append(one / other)
        print(
            f"| {pair} | {one:,.0f} | {other:,.0f} | {one / other:.3f} "
            f"| {stolen_s() - stolen:.2f} |",
            flush=True,
        )
    print(
        f"| median | | | **{median(shares):.3f}** ({min(shares):.3f} to {max(shares):.3f}; "
        "aim: at least 0.8) | |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each rate that is tried")
    parser.add_argument("--ttft-seconds", type=float, default=10.0, help="of each side of a pair")
    parser.add_argument("--only", choices=("ttft", "rates"))
    parser.add_argument("--in-call", action="store_true", help="the engine has no thread")
    chosen = parser.parse_args()
    with closing(InstantEngine(in_call=chosen.in_call)) as engine:
        suite = partial(served, engine)
        if chosen.only != "rates":
            _added(suite, chosen.pairs, chosen.ttft_seconds)
        if chosen.only != "ttft":
            _rates(suite, chosen.pairs, chosen.seconds)


if __name__ == "__main__":
    main()
