"""Compare vLLM in this process with the same vLLM behind its own server: what HTTP costs.

    python -m perf.endpoint_front_end [--pairs 3] [--qps 1.5]

Measures Offline tokens/s, and p50 and p99 of TTFT and TPOT in a Server run. The two alternate and
are never loaded at the same time, since they would disturb each other; each run has a fresh engine
that has answered a few prompts. The server gets the batch sizes that vLLM chose in this process,
since it would choose others. Prints both, and the medians of server / in process.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import numpy as np

from meta_tests.servers.local_servers import vllm_server
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import Engine, EngineDescription
from mlperf_suite.session.inputs import Inputs
from perf.embedded_engine import embedded_endpoint, embedded_engine, embedded_inputs
from perf.offline_overhead import suite_rate
from perf.server_run import server_run

_COLUMNS = ("Offline tokens/s", "TTFT p50", "TTFT p99", "TPOT p50", "TPOT p99")
_Row = tuple[float, ...]


def _measure(engine: Engine, inputs: Inputs, qps: float) -> _Row:
    prompts = inputs.prompts(LLAMA3_1_8B)
    suite_rate(engine, prompts[:8])
    offline = suite_rate(engine, prompts)
    timeline = server_run(engine, inputs, qps)
    times = [np.percentile(ms or [], (50, 99)) for ms in (timeline.ttft_ms, timeline.tpot_ms)]
    return (offline, *(float(value) for pair in times for value in pair))


def _in_process(inputs: Inputs, qps: float) -> tuple[_Row, EngineDescription]:
    with embedded_engine() as (engine, _):
        return _measure(engine, inputs, qps), engine.description


def _behind_http(inputs: Inputs, qps: float, alike: EngineDescription) -> _Row:
    arguments = ["--max-num-seqs", str(alike.settings["max_num_seqs"])]
    arguments += ["--max-num-batched-tokens", str(alike.settings["max_num_batched_tokens"])]
    with (
        vllm_server(
            inputs.model_path, max_model_len=alike.max_model_len, arguments=arguments
        ) as server,
        embedded_endpoint(server) as engine,
    ):
        return _measure(engine, inputs, qps)


def _print(name: str, row: _Row, form: Callable[[float], str] = "{:.1f}".format) -> None:
    print(f"{name:>16}" + "".join(f"{form(value):>18}" for value in row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qps", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=3)
    arguments = parser.parse_args()
    inputs = embedded_inputs()
    print(f"Server at {arguments.qps} queries/s; times in ms")
    print(" " * 16 + "".join(f"{column:>18}" for column in _COLUMNS))
    ratios: list[_Row] = []
    for _ in range(arguments.pairs):
        inside, description = _in_process(inputs, arguments.qps)
        _print("in process", inside)
        outside = _behind_http(inputs, arguments.qps, description)
        _print("behind HTTP", outside)
        ratios.append(tuple(b / a for a, b in zip(inside, outside, strict=True)))
        _print("ratio", ratios[-1], "{:.3f}".format)
    _print(
        "median ratio", tuple(map(statistics.median, zip(*ratios, strict=True))), "{:.3f}".format
    )


if __name__ == "__main__":
    main()
