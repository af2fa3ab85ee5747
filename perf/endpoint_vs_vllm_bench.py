"""Compare the suite's client with `vllm bench serve` on the same server.

    python -m perf.endpoint_vs_vllm_bench [--pairs 5] [--first 1] [--qps X]

vLLM's own server is started once and used by both in turn, in reverse order in every other pair: it
is equally warm for both, and without a prefix cache it keeps nothing from a run. Both send the same
token ids at the same times, and neither's process exists while the other measures. Without --qps
the rate is a third of the samples/s that Offline reaches on this server, which no Server rate
exceeds. Prints TTFT p99 and tokens/s of each and their ratios (aim: TTFT at most 1.00, tokens/s at
least 1.00). --first is the number of the first pair, to make the pairs one by one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import Listener, RequestList
from mlperf_suite.loadgen.timeline import Timeline
from perf.embedded_engine import (
    Prompts,
    embedded_endpoint,
    embedded_inputs,
    offline_rate,
    server_run,
)
from perf.pairs import Pair, in_turn, middle, pairs_parser, print_header, print_row
from perf.vllm_bench import Figures, Sent, bench
from scripts.local_servers import LocalServer, vllm_server


def _third_of_offline(server: LocalServer, prompts: Prompts) -> float:
    with embedded_endpoint(server) as engine:
        # A server's first answers are slow.
        offline_rate(engine, prompts[:8])
        start_s = time.perf_counter()
        offline_rate(engine, prompts)
        return len(prompts) / (time.perf_counter() - start_s) / 3


class _Noting(StandInEngine):
    """Records its prompts and when they came."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        super().__init__(Delays(), lambda _: [0])

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        now = time.monotonic()
        self.sent += [Sent(now, request.prompt_token_ids) for request in requests]
        super().submit(requests, generation, listener, stream=stream)


def schedule(prompts: Prompts, qps: float) -> list[Sent]:
    """What a Server run sends and when, learned from one on an instant stand-in."""
    engine = _Noting()
    server_run(engine, prompts, qps)
    engine.close()
    first = engine.sent[0].at_s
    return [Sent(request.at_s - first, request.prompt_token_ids) for request in engine.sent]


def figures(timeline: Timeline) -> Figures:
    """Figures as `vllm bench serve` computes them: an interpolated 99th percentile, and tokens/s
    from the first request to the last answer. LoadGen takes the slower of two values for the
    percentile and counts one request less."""
    lasted_s = (max(timeline.finished_ms) - min(timeline.issued_ms)) / 1000
    rows = sorted(zip(timeline.issued_ms, timeline.ttft_ms or [], strict=True))
    ttft_ms = [ttft for _, ttft in rows]
    return Figures(float(np.percentile(ttft_ms, 99)), sum(timeline.tokens) / lasted_s, ttft_ms)


def print_all_requests(pairs: Sequence[Pair[Figures]]) -> None:
    """Print TTFT over the requests of all pairs: p99, for which one pair has too few requests, and
    the ratio by request, since both sent the same requests at the same times. The 95% intervals
    come from resampling each side's pairs."""
    suites = np.array([pair.results["suite"].ttft_ms for pair in pairs])
    benchs = np.array([pair.results["bench"].ttft_ms for pair in pairs])
    rng = np.random.default_rng(0)
    draws = rng.integers(len(pairs), size=(2, 4000, len(pairs)))

    def p99(suite: np.ndarray, bench: np.ndarray) -> float:
        return float(np.percentile(suite, 99) / np.percentile(bench, 99))

    def same(suite: np.ndarray, bench: np.ndarray) -> float:
        return float(np.median(suite.mean(axis=0) / bench.mean(axis=0)))

    for name, ratio in (("p99 of all requests", p99), ("the same request, median", same)):
        ratios = [ratio(suites[a], benchs[b]) for a, b in zip(*draws, strict=True)]
        low, high = np.percentile(ratios, [2.5, 97.5])
        print(f"ratio of TTFT, {name}: {ratio(suites, benchs):.3f} ({low:.3f} to {high:.3f})")


def main() -> None:
    parser = pairs_parser(__doc__, pairs=5)
    parser.add_argument("--qps", type=float)
    parser.add_argument("--first", type=int, default=1)
    options = parser.parse_args()
    inputs = embedded_inputs()
    prompts, generation = inputs.prompts(LLAMA3_1_8B), inputs.generation(LLAMA3_1_8B)
    with vllm_server(inputs.model_path) as server:
        qps = options.qps or _third_of_offline(server, prompts)
        requests = schedule(prompts, qps)

        def suite() -> Figures:
            with embedded_endpoint(server) as engine:
                return figures(server_run(engine, prompts, qps)[1])

        sides = {
            "suite": suite,
            "bench": lambda: bench(server.url, server.model, requests, generation),
        }
        print(f"{len(requests)} prompts at {qps:.2f} queries/s; TTFT p99 in ms\n")
        columns = [f"{name}: {figure}" for name in sides for figure in ("TTFT p99", "tokens/s")]
        print_header("pair", *columns, "TTFT p99 ratio", "tokens/s ratio")
        pairs, ttft, rate = [], [], []
        for pair in in_turn(sides, options.pairs, options.first):
            suite_figures, bench_figures = pair.results["suite"], pair.results["bench"]
            pairs.append(pair)
            ttft.append(suite_figures.ttft_p99_ms / bench_figures.ttft_p99_ms)
            rate.append(suite_figures.tokens_per_s / bench_figures.tokens_per_s)
            cells = (
                suite_figures.ttft_p99_ms,
                suite_figures.tokens_per_s,
                bench_figures.ttft_p99_ms,
                bench_figures.tokens_per_s,
            )
            ratios = f"{ttft[-1]:.3f}", f"{rate[-1]:.3f}"
            print_row(pair.number, *(f"{figure:.1f}" for figure in cells), *ratios)
    print_row("median", *[""] * 4, middle(ttft, "at most 1.00"), middle(rate, "at least 1.00"))
    print_all_requests(pairs)


if __name__ == "__main__":
    main()
