"""The embedded model on vLLM, loaded like in a session or behind HTTP, and LoadGen's runs on it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.hang_detector import terminated_like_interrupted
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.vllm_engine import VllmEngine
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened, plan_run
from mlperf_suite.loadgen.runner import LoadRun, loadgen_settings, run_loadgen
from mlperf_suite.loadgen.timeline import Timeline
from mlperf_suite.session.engine_source import EngineRequest
from mlperf_suite.session.engines import load_engine, load_vllm
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings
from scripts.local_servers import LocalServer

Prompts = Sequence[Sequence[int]]


def embedded_inputs() -> Inputs:
    """Data, prompts and tokenizer of the smoke profile."""
    return Inputs(resolve_settings({}), [LLAMA3_1_8B])


@contextlib.contextmanager
def embedded_engine() -> Iterator[tuple[VllmEngine, Inputs]]:
    """A loaded engine and its inputs; stopped at the end, also by SIGTERM."""
    inputs = embedded_inputs()
    with terminated_like_interrupted(), tempfile.TemporaryDirectory() as folder:
        engine = load_vllm(inputs, EngineRequest("runs", Path(folder) / "engine.log"))
        assert isinstance(engine, VllmEngine)
        try:
            yield engine, inputs
        finally:
            engine.close()


@contextlib.contextmanager
def embedded_endpoint(server: LocalServer) -> Iterator[Engine]:
    """The endpoint engine for this server, as in a session; closed at the end."""
    inputs = Inputs(resolve_settings({"endpoint": [server.url]}), [LLAMA3_1_8B])
    with tempfile.TemporaryDirectory() as folder:
        engine = load_engine(inputs, EngineRequest("runs", Path(folder) / "engine.log"))
        try:
            yield engine
        finally:
            engine.close()


def _plan(
    scenario: str, samples: int, qps: float, shortened: Shortened, seed: int | None = None
) -> LoadPlan:
    round_ = ROUNDS[DEFAULT_ROUND]
    if seed is not None:
        round_ = replace(round_, schedule_rng_seed=seed)
    return plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario(scenario),
        "performance",
        round_,
        samples,
        target_qps=qps,
        shortened=shortened,
    )


def offline_plan(samples: int) -> LoadPlan:
    """Offline over so many samples, each once."""
    return _plan("Offline", samples, 0.001, Shortened(min_duration_ms=1, min_query_count=1))


def offline_rate(engine: Engine, prompts: Prompts) -> float:
    """LoadGen's own tokens/s of an Offline performance run over these prompts, each once."""
    with tempfile.TemporaryDirectory() as folder:
        plan = offline_plan(len(prompts))
        run = run_loadgen(plan, engine, prompts, EMBEDDED.generation, Path(folder))
    rate = run.logs.detail.number("result_tokens_per_second")
    if rate is None:
        raise SystemExit("LoadGen reported no tokens/s")
    return float(rate)


def server_run(
    engine: Engine, prompts: Prompts, qps: float, seed: int | None = None
) -> tuple[LoadRun, Timeline]:
    """Send each prompt once at this rate, in queries/s; `seed` draws the arrivals (the round's)."""
    shortened = Shortened(1000, 1, latency_percent=90, latency_factor=10)
    plan = _plan("Server", len(prompts), qps, shortened, seed)

    def settings(plan: LoadPlan, user_conf: Path) -> Any:
        made = loadgen_settings(plan, user_conf)
        made.schedule_rng_seed = plan.log_values["effective_schedule_rng_seed"]
        return made

    # A user.conf cannot change the seed, which a measured run must have from mlperf.conf.
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(runner, "loadgen_settings", settings),
    ):
        run = run_loadgen(plan, engine, prompts, EMBEDDED.generation, Path(folder))
    if run.timeline is None or run.timeline.ttft_ms is None:
        raise SystemExit("nothing was answered")
    return run, run.timeline
