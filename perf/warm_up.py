"""Measure what the warm-up changes in the first run: Server's TTFT p99 right after loading.

    python -m perf.warm_up [--pairs 3] [--qps 1.5]

Each run has a fresh engine that has answered no request before; runs alternate with and without the
suite's warm-up. Prints TTFT p99, p50 and that of the first query of each run, and the medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.session.warm_up import SMOKE_REQUESTS, warm_up, warm_up_prompts
from perf.embedded_engine import embedded_engine

_SAMPLES = 64


def first_run(qps: float, *, warmed: bool) -> tuple[float, float, float]:
    """TTFT p99, p50 and of the first query, in ms, of the first Server run of an engine."""
    with embedded_engine() as (engine, inputs), tempfile.TemporaryDirectory() as folder:
        prompts = inputs.prompts(LLAMA3_1_8B)[:_SAMPLES]
        generation, scenario = inputs.generation(LLAMA3_1_8B), LLAMA3_1_8B.scenario("Server")
        if warmed:
            own = warm_up_prompts(prompts, SMOKE_REQUESTS)
            warm_up(engine, own, generation, scenario, qps)
        plan = plan_run(
            LLAMA3_1_8B,
            scenario,
            "performance",
            ROUNDS[DEFAULT_ROUND],
            _SAMPLES,
            target_qps=qps,
            shortened=Shortened(1000, 1, latency_percent=90, latency_factor=10),
        )
        run = run_loadgen(plan, engine, prompts, generation, Path(folder))
    detail, timeline = run.logs.detail, run.timeline
    found = [
        detail.milliseconds(f"result_first_token_{p}_percentile_latency_ns")
        for p in ("99.00", "50.00")
    ]
    if None in found or timeline is None or timeline.ttft_ms is None:
        raise SystemExit("LoadGen reported no TTFT")
    first = min(zip(timeline.issued_ms, timeline.ttft_ms, strict=True))[1]
    return found[0] or 0.0, found[1] or 0.0, first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--qps", type=float, default=1.5)
    arguments = parser.parse_args()
    seen: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
    print("pair  warm-up  TTFT p99 ms  p50 ms  first query ms")
    for number in range(1, arguments.pairs + 1):
        # Every other pair is reversed, so that a drift of the machine favours no side.
        for warmed in (False, True) if number % 2 else (True, False):
            found = first_run(arguments.qps, warmed=warmed)
            seen[warmed].append(found)
            words = "with" if warmed else "without"
            print(f"{number:4}  {words:>7} {found[0]:12.1f} {found[1]:7.1f} {found[2]:15.1f}")
    for warmed, rows in seen.items():
        medians = [statistics.median(column) for column in zip(*rows, strict=True)]
        words = "with" if warmed else "without"
        print(f"median {words:>7} {medians[0]:11.1f} {medians[1]:7.1f} {medians[2]:15.1f}")


if __name__ == "__main__":
    main()
