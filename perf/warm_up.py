"""Measure what the warm-up changes in the first run: Server's TTFT p99 right after loading.

    python -m perf.warm_up [--pairs 3] [--qps 1.5]

Each run has a fresh engine that has answered no request before; runs alternate with and without the
suite's warm-up. Prints TTFT p99, p50 and that of the first query of each run, and the medians.
"""

from __future__ import annotations

from functools import partial
from statistics import median

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.session.preparation import warm_up, warm_up_prompts
from mlperf_suite.session.timing.estimate import SMOKE_REQUESTS
from perf.embedded_engine import embedded_engine, server_run
from perf.pairs import in_turn, pairs_parser, print_header, print_row
from perf.server_load import ttft_ms

_SAMPLES = 64


def first_run(qps: float, *, warm: bool) -> tuple[float, float, float]:
    """TTFT p99, p50 and of the first query, in ms, of the first Server run of an engine."""
    with embedded_engine() as (engine, inputs):
        prompts = inputs.prompts(LLAMA3_1_8B)[:_SAMPLES]
        if warm:
            own = warm_up_prompts(prompts, SMOKE_REQUESTS)
            generation, scenario = inputs.generation(LLAMA3_1_8B), LLAMA3_1_8B.scenario("Server")
            warm_up(engine, own, generation, scenario, qps)
        run, timeline = server_run(engine, prompts, qps)
    detail = run.logs.detail
    first = min(zip(timeline.issued_ms, timeline.ttft_ms or [], strict=True))[1]
    return ttft_ms(detail), ttft_ms(detail, "50.00"), first


def main() -> None:
    parser = pairs_parser(__doc__, pairs=3)
    parser.add_argument("--qps", type=float, default=1.5)
    options = parser.parse_args()
    sides = {
        name: partial(first_run, options.qps, warm=warm)
        for name, warm in (("without", False), ("with", True))
    }
    print_header("warm-up", "pair", "TTFT p99, ms", "p50", "first query")
    pairs = []
    for pair in in_turn(sides, options.pairs):
        pairs.append(pair)
        for name in sides:
            print_row(name, pair.number, *(f"{ms:.1f}" for ms in pair.results[name]))
    for name in sides:
        columns = zip(*(pair.results[name] for pair in pairs), strict=True)
        print_row(name, "median", *(f"{median(column):.1f}" for column in columns))


if __name__ == "__main__":
    main()
