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

import os
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from meta_tests.features.replicas.replica_stand_in import answering
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.engines.batch import generate_all
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.features.replicas.engine import ReplicaEngine
from mlperf_suite.features.replicas.loading import ReplicasConfig
from perf.hundred_tokens import a_hundred
from perf.pairs import pairs_parser, print_header, print_row
from perf.server_load import Serve, completed_rate, is_held, latency_ms, print_added_ttft, serve_at
from scripts.local_nodes import local_nodes

_PROMPT = list(range(350))
"""As long as the embedded benchmark's prompts."""
_START_RATE, _STEP = 1000.0, 1.25
_AIM_RATE = 2000


def instant(number: int, gpus: int) -> Callable[[Path], Engine]:
    """The engine of each replica."""
    return partial(answering, a_hundred, 0.0, 0.0)


def _print_rates(engine: ReplicaEngine, serve: Serve, seconds: float, late_ms: float) -> None:
    print("\nrates held, queries/s:\n", flush=True)
    columns = "completed", "latency p99, ms", "driver's thread, % of a core", "held"
    print_header("rate", *columns)
    rate, best = _START_RATE, 0.0
    while True:
        # A rate may fail because of other load at that moment.
        for _ in range(2):
            engine.take_replicas_run()
            detail = serve(rate, round(seconds * 1000))
            run = engine.take_replicas_run()
            ok = is_held(rate, detail, late_ms=late_ms)
            if ok:
                break
        print_row(
            f"{rate:,.0f}",
            f"{completed_rate(detail) or 0.0:,.0f}",
            f"{latency_ms(detail) or 0.0:.2f}",
            f"{run.driver_busy_share * 100:.1f}",
            "yes" if ok else "no",
        )
        if not ok:
            break
        best, rate = rate, rate * _STEP
    print(f"\nhighest rate held: **{best:,.0f}** queries/s (aim: {_AIM_RATE:,})", flush=True)


def _print_tail(engine: ReplicaEngine) -> None:
    engine.take_replicas_run()
    generate_all(engine, [_PROMPT] * 20_000, Generation())
    run = engine.take_replicas_run()
    counts = [replica.samples for replica in run.replicas]
    print(
        f"\nOffline, 20,000 requests at once: {run.elapsed_s:.2f} s, the last replica ended "
        f"{run.tail_s} s after the first; each answered {min(counts):,} to {max(counts):,}"
    )


def main() -> None:
    parser = pairs_parser(__doc__, pairs=5)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each rate that is tried")
    parser.add_argument("--ttft-seconds", type=float, default=10.0, help="of each side of a pair")
    parser.add_argument("--late", type=float, default=100.0, help="ms that p99 may take")
    options = parser.parse_args()
    half = options.replicas // 2
    with local_nodes({"node-a": options.replicas - half, "node-b": half}) as nodes:
        os.environ.update(nodes.variables)
        config = ReplicasConfig(
            instant,
            needs_vllm=False,
            address=nodes.address,
            replicas=options.replicas,
            cpus=1,
            keep_to_cores=False,
        )
        with closing(ReplicaEngine.load(config, print)) as engine:
            serve = partial(serve_at, engine, prompt=_PROMPT)
            print_added_ttft("replicas", serve, options.pairs, options.ttft_seconds, "at most 5")
            _print_rates(engine, serve, options.seconds, options.late)
            _print_tail(engine)


if __name__ == "__main__":
    main()
