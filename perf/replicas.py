"""Measure what replicas add in Server to LoadGen with a SUT that answers at once.

    python -m perf.replicas [--replicas 8] [--pairs 5] [--seconds 2] [--ttft-seconds 10]

Stand-in engines that answer at once run in separate processes on two Ray nodes of this machine; the
suite's SUT and driver are in this process, as in a run. LoadGen alone answers inside its callback.
Each query streams a first token and an answer of 100 tokens. Both are measured in turn, a pair
within the same minute. First table: the time to first token at 200 queries/s. Second table: the
highest rate held, of which 97% is completed in each second with a latency p99 of at most `--late`
ms. Last, Offline: how long the last replica works after the first has ended. No engine is measured.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

from meta_tests.servers.replica_stand_in import a_hundred, answering
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.replicas.config import ReplicasConfig
from mlperf_suite.engines.replicas.engine import ReplicaEngine
from mlperf_suite.engines.replicas.local_nodes import local_nodes
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.logs import DetailLog
from perf.server_overhead import (
    SAMPLES,
    in_turn,
    loadgen_alone,
    server_plan,
    stolen_s,
    ttft_ms,
)

_TTFT_RATE = 200
_PROMPT = list(range(350))
"""As long as the embedded benchmark's prompts."""
_HELD_SHARE = 0.97
_STEP = 1.25
_AIM_RATE, _AIM_MS = 2000, 5.0


def instant(number: int, gpus: int) -> Callable[[Path], Engine]:
    """The engine of each replica."""
    return partial(answering, a_hundred, 0.0, 0.0)


def served(engine: ReplicaEngine, rate: float, duration_ms: int) -> DetailLog:
    """The log of a Server run on the replicas, each query with its prompt. Raises RunError."""
    plan = server_plan(rate, duration_ms)
    prompts = [_PROMPT] * SAMPLES
    with tempfile.TemporaryDirectory() as folder:
        run = runner.run_loadgen(plan, engine, prompts, Generation(), Path(folder))
    return run.logs.detail


def _added(engine: ReplicaEngine, pairs: int, seconds: float) -> None:
    print(f"\nTTFT at {_TTFT_RATE} queries/s, ms:\n", flush=True)
    print("| pair | replicas p50 | p99 | LoadGen alone p50 | p99 | p99 added | stolen, s |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    duration_ms, added = round(seconds * 1000), []
    p50: dict[str, float] = {}

    def p99_of(name: str, serve: Callable[[float, int], DetailLog]) -> float:
        detail = serve(_TTFT_RATE, duration_ms)
        p50[name] = ttft_ms(detail, "50.00")
        return ttft_ms(detail)

    for pair in range(1, pairs + 1):
        stolen = stolen_s()
        one, other = in_turn(
            pair,
            partial(p99_of, "replicas", partial(served, engine)),
            partial(p99_of, "alone", loadgen_alone),
        )
        added.append(one - other)
        print(
            f"| {pair} | {p50['replicas']:.3f} | {one:.3f} | {p50['alone']:.3f} | {other:.3f} "
            f"| {one - other:.3f} | {stolen_s() - stolen:.2f} |",
            flush=True,
        )
    print(
        f"| median | | | | | **{median(added):.3f}** ({min(added):.3f} to {max(added):.3f}; "
        f"aim: at most {_AIM_MS:g}) | |"
    )


def _rates(engine: ReplicaEngine, seconds: float, late_ms: float) -> None:
    print("\nrates held, queries/s:\n", flush=True)
    print("| rate | completed | latency p99, ms | driver's thread, % of a core | held |")
    print("|---:|---:|---:|---:|---|", flush=True)
    rate, best = 1000.0, 0.0
    while True:
        held = False
        # A rate may fail because of other load at that moment.
        for _ in range(2):
            engine.take_replicas_run()
            detail = served(engine, rate, round(seconds * 1000))
            run = engine.take_replicas_run()
            late = detail.milliseconds("result_99.00_percentile_latency_ns") or 0.0
            completed = detail.number("result_completed_samples_per_sec") or 0.0
            held = late <= late_ms and completed >= _HELD_SHARE * rate
            if held:
                break
        busy = run.driver_busy_share * 100
        print(
            f"| {rate:,.0f} | {completed:,.0f} | {late:.2f} | {busy:.1f} "
            f"| {'yes' if held else 'no'} |",
            flush=True,
        )
        if not held:
            break
        best, rate = rate, rate * _STEP
    print(f"\nhighest rate held: **{best:,.0f}** queries/s (aim: {_AIM_RATE:,})", flush=True)


def _tail(engine: ReplicaEngine) -> None:
    engine.take_replicas_run()
    generate_all(engine, [_PROMPT] * 20_000, Generation())
    run = engine.take_replicas_run()
    counts = [one.samples for one in run.replicas]
    print(
        f"\nOffline, 20,000 requests at once: {run.elapsed_s:.2f} s, the last replica ended "
        f"{run.tail_s} s after the first; each answered {min(counts):,} to {max(counts):,}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each rate that is tried")
    parser.add_argument("--ttft-seconds", type=float, default=10.0, help="of each side of a pair")
    parser.add_argument("--late", type=float, default=100.0, help="ms that p99 may take")
    chosen = parser.parse_args()
    half = chosen.replicas - chosen.replicas // 2
    cores = {"node-a": half, "node-b": chosen.replicas // 2}
    with local_nodes(cores) as nodes:
        os.environ.update(nodes.variables)
        config = ReplicasConfig(
            instant,
            needs_vllm=False,
            address=nodes.address,
            replicas=chosen.replicas,
            cpus=1,
            keep_to_cores=False,
        )
        with closing(ReplicaEngine.load(config, print)) as engine:
            _added(engine, chosen.pairs, chosen.ttft_seconds)
            _rates(engine, chosen.seconds, chosen.late)
            _tail(engine)


if __name__ == "__main__":
    main()
