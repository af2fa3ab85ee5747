"""Compare the suite's Server scenario with `vllm bench serve` on vLLM's own server.

    python -m perf.server_vs_vllm_bench [--qps 1.5] [--pairs 3]

Alternates the two with the same model, engine arguments, prompts and times. Each run has its own
engine and the machine to itself, since even an idle engine takes processor time. Prints TTFT p99
and tokens/s of each, the median of the ratios, and TTFT over the requests of all pairs.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

import numpy as np

from meta_tests.servers.local_servers import vllm_server
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
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
    """Print a row under HEADER; return the ratios suite / bench of TTFT p99 and tokens/s."""
    ttft = ours.ttft_p99_ms / theirs.ttft_p99_ms
    rate = ours.tokens_per_s / theirs.tokens_per_s
    print(
        f"{number:4}  {ours.ttft_p99_ms:18.1f} {ours.tokens_per_s:9.1f} "
        f"{theirs.ttft_p99_ms:19.1f} {theirs.tokens_per_s:9.1f} {ttft:8.3f} {rate:8.3f}",
        flush=True,
    )
    return ttft, rate


def print_medians(ratios: Sequence[tuple[float, float]]) -> None:
    """Print the median of each ratio, with its minimum and maximum."""
    for name, column in zip(("TTFT p99", "tokens/s"), zip(*ratios, strict=True), strict=True):
        middle = statistics.median(column)
        print(f"ratio of {name}: median {middle:.3f}, {min(column):.3f} to {max(column):.3f}")


def print_all_requests(pairs: Sequence[tuple[Figures, Figures]]) -> None:
    """Print TTFT over the requests of all pairs: p99, for which one pair has too few requests, and
    the ratio by request, since both sent the same requests at the same times. The 95% intervals
    come from resampling each side's pairs."""
    ours = np.array([pair[0].ttft_ms for pair in pairs])
    theirs = np.array([pair[1].ttft_ms for pair in pairs])
    rng = np.random.default_rng(0)
    draws = rng.integers(len(pairs), size=(2, 4000, len(pairs)))

    def p99(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.percentile(one, 99) / np.percentile(other, 99))

    def same(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.median(one.mean(axis=0) / other.mean(axis=0)))

    for name, ratio in (("p99 of all requests", p99), ("the same request, median", same)):
        drawn = [ratio(ours[a], theirs[b]) for a, b in zip(*draws, strict=True)]
        low, high = np.percentile(drawn, [2.5, 97.5])
        print(f"ratio of TTFT, {name}: {ratio(ours, theirs):.3f} ({low:.3f} to {high:.3f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qps", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    inputs = embedded_inputs()
    sent = schedule(inputs, arguments.qps)
    print(f"{len(sent)} prompts at {arguments.qps} queries/s")
    print(HEADER)
    ratios, pairs = [], []
    for number in range(1, arguments.pairs + 1):
        ours = _suite(arguments.qps)
        theirs = _vllm_bench(inputs.model_path, sent)
        ratios.append(print_pair(number, ours, theirs))
        pairs.append((ours, theirs))
    print_medians(ratios)
    print_all_requests(pairs)


if __name__ == "__main__":
    main()
