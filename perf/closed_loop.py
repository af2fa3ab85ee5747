"""Measure clients at a fixed concurrency: requests/s held, added TTFT and processor time.

    python -m perf.closed_loop [--guidellm FILE] [--aiperf FILE] [--pairs 2] [--concurrency 64]

A stand-in server answers each request with 100 chunks of one token: the first after 50 ms, the last
450 ms later. The clients send prompts of 128 tokens in turn: the curve's own client, and the
programs that the options name, each in its own environment; a program that is not named is left
out. Processor time is per request: that of a long run less that of a short one, so that a program's
start does not count. No engine is measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from meta_tests.features.servers.stand_in_options import StandIn
from meta_tests.features.servers.stand_in_server import RunningStandIn, engine_on, stand_in_server
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.features.endpoints.curve.closed_loop import hold_concurrency
from perf.pairs import in_turn, middle, pairs_parser, print_header, print_row

_SERVER = StandIn(first_token_s=0.05, rest_s=0.45, chunk_tokens=1)
_PROMPT = [100 + i for i in range(128)]
_SHORT, _LONG = 4, 24
"""Requests of a run, for each of those at once."""
_LIMIT_S = 180


@dataclass(frozen=True, slots=True)
class Held:
    """A client's own figures of a run: requests/s, TTFT p50 and p90 in ms; and its processor time
    in s, with that of its processes."""

    requests_per_sec: float
    ttft_p50_ms: float
    ttft_p90_ms: float
    cpu_s: float


def _suite_load(server: RunningStandIn, concurrency: int, requests: int) -> Held:
    with engine_on(server, clients=1) as engine:
        processes = [psutil.Process()]
        processes += [c for c in processes[0].children() if c.pid != server.process.pid]
        before = _spent(processes)
        times = hold_concurrency(
            engine,
            itertools.repeat((_PROMPT, "")),
            Generation(max_new_tokens=100),
            concurrency,
            lambda times, now_s: len(times.issued_s) >= requests,
            silence_s=30,
        )
        spent = _spent(processes) - before
    ttft_ms = (np.array(times.first_s) - np.array(times.issued_s)) * 1000
    p50, p90 = np.percentile(ttft_ms, (50, 90))
    return Held(times.completed / max(times.ended_s), float(p50), float(p90), spent)


def _spent(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _guidellm_load(program: Path, server: RunningStandIn, concurrency: int, requests: int) -> Held:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        url = f"kind=openai_http,target={server.url},model=stand-in,request_format=/v1/completions"
        options = {
            "--backend": url,
            "--profile": f"kind=concurrent,streams={concurrency}",
            "--constraint": f"kind=max_requests,count={requests}",
            "--data": "kind=synthetic_text,prompt_tokens=128,output_tokens=100",
            "--tokenizer": f"kind=hf_auto,model={embedded_model_dir()}",
            "--output": f"kind=json,path={file}",
        }
        cpu_s = _run([str(program), "run", "--disable-console", *_words(options)])
        metrics = json.loads(file.read_text())["benchmarks"][0]["metrics"]
    ttft = metrics["time_to_first_token_ms"]["successful"]["percentiles"]
    rate = metrics["requests_per_second"]["successful"]["mean"]
    return Held(rate, ttft["p50"], ttft["p90"], cpu_s)


def _aiperf_load(program: Path, server: RunningStandIn, concurrency: int, requests: int) -> Held:
    with tempfile.TemporaryDirectory() as folder:
        options = {
            **{"--model": "stand-in", "--url": server.url, "--endpoint-type": "completions"},
            **{"--concurrency": concurrency, "--request-count": requests},
            **{"--isl": 128, "--osl": 100, "--tokenizer": embedded_model_dir()},
            **{"--artifact-dir": folder, "--ui": "none"},
        }
        flags = ("--streaming", "--no-server-metrics", "--no-gpu-telemetry")
        cpu_s = _run([str(program), "profile", *flags, *_words(options)])
        (file,) = Path(folder).rglob("profile_export_aiperf.json")
        metrics: dict[str, Any] = json.loads(file.read_text())
    ttft = metrics["time_to_first_token"]
    return Held(metrics["request_throughput"]["avg"], ttft["p50"], ttft["p90"], cpu_s)


def _words(options: Mapping[str, object]) -> list[str]:
    return [str(word) for pair in options.items() for word in pair]


def _run(command: Sequence[str]) -> float:
    """The processor time of a program and its children, in s. Raises CalledProcessError."""
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    before = os.times()
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=_LIMIT_S)
    after = os.times()
    own = after.children_user + after.children_system
    return own - before.children_user - before.children_system


def _measured(client: Callable[[int, int], Held], concurrency: int) -> tuple[Held, float]:
    """The figures of the long run, and its microseconds of processor time per request."""
    short, long = (client(concurrency, concurrency * times) for times in (_SHORT, _LONG))
    requests = concurrency * (_LONG - _SHORT)
    return long, (long.cpu_s - short.cpu_s) / requests * 1e6


def _parser() -> argparse.ArgumentParser:
    parser = pairs_parser(__doc__, pairs=2)
    parser.add_argument("--concurrency", type=int, default=64)
    for name in _PROGRAMS:
        parser.add_argument(f"--{name}", type=Path, help=f"the program {name}")
    return parser


_PROGRAMS = {"guidellm": _guidellm_load, "aiperf": _aiperf_load}


def main() -> None:
    options = _parser().parse_args()
    concurrency: int = options.concurrency
    with stand_in_server(_SERVER) as server:
        sides = {"suite": partial(_measured, partial(_suite_load, server), concurrency)}
        for name, client in _PROGRAMS.items():
            if program := getattr(options, name):
                sides[name] = partial(_measured, partial(client, program, server), concurrency)
            else:
                print(f"{name} is left out: --{name} names no program\n")
        rounds = list(in_turn(sides, options.pairs))
    first_ms = _SERVER.first_token_s * 1000
    asked = concurrency / (_SERVER.first_token_s + _SERVER.rest_s)
    print(f"concurrency {concurrency}: at most {asked:.1f} requests/s\n")
    print_header("client", "requests/s", "added TTFT p50, ms", "p90, ms", "us per request")
    for name in sides:
        results = [turn.results[name] for turn in rounds]
        figures = (
            [held.requests_per_sec for held, _ in results],
            [held.ttft_p50_ms - first_ms for held, _ in results],
            [held.ttft_p90_ms - first_ms for held, _ in results],
            [spent_us for _, spent_us in results],
        )
        print_row(name, *map(middle, figures))


if __name__ == "__main__":
    main()
