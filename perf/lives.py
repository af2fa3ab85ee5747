"""Check that the parts of each request add up to LoadGen's own latency, on a real engine.

    python -m perf.lives [--stand-in] [--scenario Server] [--qps 1.0] [--seconds 20]

LoadGen's trace, which the suite's runs do not write, has the latency of each sample in ns. Prints
for each scenario how far the sums of the parts are off, over all requests, and each part's share of
their time.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.stand_in import Delays, StandInEngine
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.timeline import Timeline
from perf.embedded_engine import embedded_engine

_SAMPLES = 32
_SCENARIOS = ("Offline", "Server", "SingleStream")
_ENTRY = re.compile(
    r'"name":"Sample".*?"ts":([\d.]+),.*?"sample_seq":(\d+),.*?"sample_idx":(\d+),'
    r'"issue_start_ns":-?\d+,"complete_ns":(\d+)'
)


@dataclass(frozen=True, slots=True)
class Trace:
    """What LoadGen's trace has of each sample of a run, in issue order: its index in the QSL, its
    scheduled time in us since the log's start, and its latency in ms."""

    samples: list[int]
    scheduled_us: list[float]
    latency_ms: list[float]


def with_trace(folder: Path) -> Any:
    """LoadGen's log settings with the trace enabled."""
    settings = _LOG_SETTINGS(folder)
    settings.enable_trace = True
    return settings


_LOG_SETTINGS = runner.log_settings


def read_trace(folder: Path) -> Trace:
    """Read the trace from a folder of logs."""
    found = _ENTRY.findall((folder / "mlperf_log_trace.json").read_text())
    rows = sorted((int(n), int(of), float(at), int(done) / 1e6) for at, n, of, done in found)
    return Trace([row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows])


def differences_ms(timeline: Timeline, traced: Trace, *, one_query: bool) -> list[float]:
    """How far each request's sum of parts is from its latency by LoadGen, in ms, sorted.

    `one_query`: whether it is an Offline run. Its samples all begin at the same time, so they can
    only be matched by the order of their latencies.
    """
    sums = np.sum([np.asarray(of) for of in timeline.parts_ms.values()], axis=0)
    loadgens = np.asarray(traced.latency_ms)
    if one_query:
        return sorted(np.abs(np.sort(sums) - np.sort(loadgens)).tolist())
    order = np.argsort(timeline.issued_ms, kind="stable")
    if [timeline.samples[row] for row in order] != traced.samples:
        raise SystemExit("the timeline's order of issue is not LoadGen's")
    return sorted(np.abs(sums[order] - loadgens).tolist())


def _run(
    engine: Engine, prompts: Sequence[Sequence[int]], scenario: str, qps: float, seconds: float
) -> None:
    benchmark = LLAMA3_1_8B_EDGE if scenario == "SingleStream" else LLAMA3_1_8B
    shortened = Shortened(int(seconds * 1000), 16, latency_percent=90, latency_factor=100)
    plan = plan_run(
        benchmark,
        benchmark.scenario(scenario),
        "performance",
        ROUNDS[DEFAULT_ROUND],
        len(prompts),
        target_qps=qps,
        expected_latency_ms=500.0,
        shortened=shortened,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = runner.run_loadgen(plan, engine, prompts, Generation(max_new_tokens=32), folder)
        traced = read_trace(folder)
    timeline = run.timeline
    if timeline is None or not timeline.from_loadgen:
        raise SystemExit(f"{scenario}: no start of LoadGen's")
    off = differences_ms(timeline, traced, one_query=scenario == "Offline")
    shares = "  ".join(
        f"{part} {sum(ms) / sum(timeline.latency_ms):.1%}" for part, ms in timeline.parts_ms.items()
    )
    within = sum(ms <= 0.1 for ms in off)
    print(
        f"{scenario}: {len(off)} requests, off by {off[len(off) // 2]:.4f} ms at p50 and "
        f"{off[-1]:.4f} at the most; {within} within 0.1 ms; {shares}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("--scenario", choices=_SCENARIOS, action="append")
    parser.add_argument("--qps", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    runner.log_settings = with_trace
    if given.stand_in:
        engine = StandInEngine(Delays(0.01, 0.05), lambda prompt: [*range(32)])
        try:
            _runs(engine, [[1, 2, 3]] * _SAMPLES, given)
        finally:
            engine.close()
        return
    with embedded_engine() as (loaded, inputs):
        prompts = inputs.prompts(LLAMA3_1_8B)[:_SAMPLES]
        _runs(loaded, prompts, given)


def _runs(engine: Engine, prompts: Sequence[Sequence[int]], given: argparse.Namespace) -> None:
    for scenario in given.scenario or _SCENARIOS:
        _run(engine, prompts, scenario, given.qps, given.seconds)


if __name__ == "__main__":
    main()
