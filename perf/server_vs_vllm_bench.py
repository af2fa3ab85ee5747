"""The suite's Server scenario beside `vllm bench serve` on vLLM's own server.

    python -m perf.server_vs_vllm_bench [--qps 1.5] [--pairs 3]

The same model, engine arguments, prompts and times, alternating. Each run has an engine of its own
and the machine to itself: an engine that only waits takes processor time as well. Prints TTFT p99
and tokens/s of each, and the median of the ratios.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.testing.local_servers import vllm_server
from perf.embedded_engine import embedded_engine, embedded_inputs
from perf.server_run import figures, schedule, server_run
from perf.vllm_bench import Figures, Sent, bench

HEADER = "pair  suite: TTFT p99 ms, tokens/s  bench: TTFT p99 ms, tokens/s  TTFT  tokens/s"


def _suite(qps: float) -> Figures:
    with embedded_engine() as (engine, inputs):
        return figures(server_run(engine, inputs, qps))


def _vllm_bench(model: str, sent: Sequence[Sent]) -> Figures:
    with vllm_server(model) as server:
        generation = embedded_inputs().generation(LLAMA3_1_8B)
        return bench(server.url, server.model, sent, generation)


def print_pair(number: int, ours: Figures, theirs: Figures) -> tuple[float, float]:
    """Print a row under HEADER; the suite's TTFT p99 and tokens/s over the bench's."""
    ttft = ours.ttft_p99_ms / theirs.ttft_p99_ms
    rate = ours.tokens_per_s / theirs.tokens_per_s
    print(
        f"{number:4}  {ours.ttft_p99_ms:18.1f} {ours.tokens_per_s:9.1f} "
        f"{theirs.ttft_p99_ms:19.1f} {theirs.tokens_per_s:9.1f} {ttft:8.3f} {rate:8.3f}",
        flush=True,
    )
    return ttft, rate


def print_medians(ratios: Sequence[tuple[float, float]]) -> None:
    """Print the median of each ratio, with the least and the greatest."""
    for name, column in zip(("TTFT p99", "tokens/s"), zip(*ratios, strict=True), strict=True):
        middle = statistics.median(column)
        print(f"ratio of {name}: median {middle:.3f}, {min(column):.3f} to {max(column):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qps", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    inputs = embedded_inputs()
    sent = schedule(inputs, arguments.qps)
    print(f"{len(sent)} prompts at {arguments.qps} queries/s")
    print(HEADER)
    ratios = []
    for number in range(1, arguments.pairs + 1):
        ours = _suite(arguments.qps)
        theirs = _vllm_bench(inputs.model_path, sent)
        ratios.append(print_pair(number, ours, theirs))
    print_medians(ratios)


if __name__ == "__main__":
    main()
