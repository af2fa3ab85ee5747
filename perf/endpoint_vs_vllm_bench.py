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

import argparse
import time

from meta_tests.servers.local_servers import LocalServer, vllm_server
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.session.inputs import Inputs
from perf.embedded_engine import embedded_endpoint, embedded_inputs
from perf.offline_overhead import suite_rate
from perf.server_run import figures, schedule, server_run
from perf.server_vs_vllm_bench import HEADER, print_all_requests, print_medians, print_pair
from perf.vllm_bench import Figures, bench


def _third_of_offline(server: LocalServer, inputs: Inputs) -> float:
    prompts = inputs.prompts(LLAMA3_1_8B)
    with embedded_endpoint(server) as engine:
        # A server's first answers are slow.
        suite_rate(engine, prompts[:8])
        started = time.perf_counter()
        suite_rate(engine, prompts)
        return len(prompts) / (time.perf_counter() - started) / 3


def _suite(server: LocalServer, inputs: Inputs, qps: float) -> Figures:
    with embedded_endpoint(server) as engine:
        return figures(server_run(engine, inputs, qps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qps", type=float)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--first", type=int, default=1)
    arguments = parser.parse_args()
    inputs = embedded_inputs()
    generation = inputs.generation(LLAMA3_1_8B)
    with vllm_server(inputs.model_path) as server:
        qps = arguments.qps or _third_of_offline(server, inputs)
        sent = schedule(inputs, qps)
        print(f"{len(sent)} prompts at {qps:.2f} queries/s")
        print(HEADER)
        ratios, pairs = [], []
        for number in range(arguments.first, arguments.first + arguments.pairs):
            if number % 2:
                ours = _suite(server, inputs, qps)
                theirs = bench(server.url, server.model, sent, generation)
            else:
                theirs = bench(server.url, server.model, sent, generation)
                ours = _suite(server, inputs, qps)
            ratios.append(print_pair(number, ours, theirs))
            pairs.append((ours, theirs))
    print_medians(ratios)
    print_all_requests(pairs)


if __name__ == "__main__":
    main()
