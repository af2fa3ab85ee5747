"""Compare LoadGen and MLCommons' official HTTP client on one server.

    python -m perf.two_load_generators [--pairs 5] [--samples 32] [--qps X]

vLLM's own server with the embedded model is started once; both send the same token ids at the same
Poisson rate, in turn, in reverse order in every other pair. Each draws its own arrivals, with
another seed in each pair, so that the intervals cover how much the arrivals matter. Without --qps
the rate is a third of the samples/s that Offline reaches there. Prints each side's figures as it
reports them, their ratios (LoadGen's over the client's), and of each ratio the geometric mean with
Student's 95% interval over the pairs. docs/endpoints.md says why the two may differ.
Needs `make endpoints-client`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import count
from pathlib import Path

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.endpoints.official_client.client_job import (
    OfficialClientData,
    OfficialClientJob,
    OfficialClientLoad,
)
from mlperf_suite.features.endpoints.official_client.client_process import run_official_client
from mlperf_suite.features.endpoints.official_client.installation import (
    OfficialClientInstallation,
    find_official_client,
)
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    ResultSummary,
    read_typed,
)
from perf.embedded_engine import (
    Prompts,
    embedded_endpoint,
    embedded_inputs,
    offline_rate,
    server_run,
)
from perf.pairs import in_turn, pairs_parser, print_header, print_row, ratio_interval
from scripts.local_servers import LocalServer, vllm_server


@dataclass(frozen=True, slots=True)
class Reported:
    """What a load generator reports of a run: times in ms, tokens/s."""

    ttft_p50_ms: float
    ttft_p90_ms: float
    tpot_p50_ms: float
    tpot_p90_ms: float
    tokens_per_s: float


_COLUMNS = ("TTFT p50", "TTFT p90", "TPOT p50", "TPOT p90", "tokens/s")


def _loadgen_rate(server: LocalServer, prompts: Prompts, qps: float, seed: int) -> Reported:
    with embedded_endpoint(server) as engine:
        detail = server_run(engine, prompts, qps, seed)[0].logs.detail
    names = [
        f"result_{time}_{share}_percentile_{unit}"
        for time, unit in (("first_token", "latency_ns"), ("time_per_output_token", "ns"))
        for share in ("50.00", "90.00")
    ]
    times = [detail.milliseconds(name) for name in names]
    return _reported([*times, detail.number("result_completed_tokens_per_second")])


def _reported(values: Sequence[float | None]) -> Reported:
    ttft_p50, ttft_p90, tpot_p50, tpot_p90, rate = (float(v) for v in values if v is not None)
    return Reported(ttft_p50, ttft_p90, tpot_p50, tpot_p90, rate)


def _client_rate(
    client: OfficialClientInstallation,
    server: LocalServer,
    prompts: Prompts,
    qps: float,
    seed: int,
    tokenizer: Path,
) -> Reported:
    job = OfficialClientJob(
        name="two load generators",
        urls=(server.url,),
        model=server.model,
        tokenizer=tokenizer,
        load=OfficialClientLoad(rate=qps, requests=len(prompts)),
        performance=OfficialClientData(prompts=prompts),
        generation=EMBEDDED.generation,
        max_new_tokens=EMBEDDED.generation.max_new_tokens,
        seeds=(seed, seed),
    )
    with tempfile.TemporaryDirectory() as folder:
        report = run_official_client(client, job, Path(folder))
        file = report / "performance" / "result_summary.json"
        summary, fault = read_typed(file, ResultSummary)
    if summary is None:
        raise SystemExit(fault)
    times = [s.percentiles[p] / 1e6 for s in (summary.ttft, summary.tpot) for p in ("50.0", "90.0")]
    return _reported([*times, summary.tps])


def _third_of_offline(server: LocalServer, prompts: Prompts) -> float:
    with embedded_endpoint(server) as engine:
        # A server's first answers are slow.
        offline_rate(engine, prompts[:8])
        start_s = time.perf_counter()
        offline_rate(engine, prompts)
        return len(prompts) / (time.perf_counter() - start_s) / 3


def main() -> None:
    parser = pairs_parser(__doc__, pairs=5)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--qps", type=float)
    options = parser.parse_args()
    inputs, client = embedded_inputs(), find_official_client()
    prompts = inputs.prompts(LLAMA3_1_8B)[: options.samples]
    tokenizer = inputs.tokenizer_folder
    assert tokenizer is not None
    with vllm_server(inputs.model_path) as server:
        qps = options.qps or _third_of_offline(server, prompts)
        seeds, client_seeds = count(1), count(1)
        sides = {
            "LoadGen": lambda: _loadgen_rate(server, prompts, qps, next(seeds)),
            "client": lambda: _client_rate(
                client, server, prompts, qps, next(client_seeds), tokenizer
            ),
        }
        print(f"{client.words}; {len(prompts)} prompts at {qps:.2f} queries/s; times in ms\n")
        print_header("side", *_COLUMNS)
        ratios: list[list[float]] = []
        for pair in in_turn(sides, options.pairs):
            figures = {name: astuple(pair.results[name]) for name in sides}
            for name, values in figures.items():
                print_row(f"{pair.number}, {name}", *(f"{value:.1f}" for value in values))
            of_pair = zip(figures["LoadGen"], figures["client"], strict=True)
            ratios.append([loadgen / other for loadgen, other in of_pair])
    print_row("LoadGen / client", *(ratio_interval(column) for column in zip(*ratios, strict=True)))


if __name__ == "__main__":
    main()
