"""One Server run of the embedded benchmark through LoadGen, for the programs of this folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.protocol import Engine, Listener, Request
from mlperf_suite.engines.stand_in import Delays, StandInEngine
from mlperf_suite.loadgen.load_plan import Shortened, plan_run
from mlperf_suite.loadgen.runner import run_loadgen
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.session.inputs import Inputs
from perf.vllm_bench import Figures, Sent


def server_run(engine: Engine, inputs: Inputs, qps: float) -> Timeline:
    """Send each sample once at this rate, in queries/s; fixed seeds give the same times always."""
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
    with tempfile.TemporaryDirectory() as folder:
        run = run_loadgen(plan, engine, prompts, inputs.generation(LLAMA3_1_8B), Path(folder))
    if run.timeline is None or run.timeline.ttft_ms is None:
        raise SystemExit("nothing was answered")
    return run.timeline


def schedule(inputs: Inputs, qps: float) -> list[Sent]:
    """What `server_run` sends and when, learned from a run on an instant stand-in."""
    engine = _Noting(Delays(), lambda _: [0])
    server_run(engine, inputs, qps)
    engine.close()
    first = engine.sent[0].at_s
    return [Sent(one.at_s - first, one.prompt_token_ids) for one in engine.sent]


def figures(timeline: Timeline) -> Figures:
    """Figures as `vllm bench serve` computes them: an interpolated 99th percentile, and tokens/s
    from the first request to the last answer. LoadGen takes the slower of two values for the
    percentile and counts one request less."""
    lasted_s = (max(timeline.finished_ms) - min(timeline.issued_ms)) / 1000
    rows = sorted(zip(timeline.issued_ms, timeline.ttft_ms or [], strict=True))
    ttft_ms = [ttft for _, ttft in rows]
    return Figures(float(np.percentile(ttft_ms, 99)), sum(timeline.tokens) / lasted_s, ttft_ms)


class _Noting(StandInEngine):
    """Records its prompts and when they came."""

    def __init__(self, *arguments: object) -> None:
        self.sent: list[Sent] = []
        super().__init__(*arguments)  # type: ignore[arg-type]

    def submit(
        self,
        requests: Sequence[Request],
        generation: Generation,
        listener: Listener,
        *,
        stream: bool,
    ) -> None:
        now = time.monotonic()
        self.sent += [Sent(now, request.prompt_token_ids) for request in requests]
        super().submit(requests, generation, listener, stream=stream)
