"""Server runs that measure the suite and no engine, and LoadGen alone, which no suite can beat."""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg
import numpy as np

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.protocol import Engine, EngineDescription, Listener, Request, RequestList
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened, plan_run
from mlperf_suite.loadgen.logs import DetailLog, read_logs
from perf.pairs import in_turn, middle, print_header, print_row

SAMPLES = 1000
ANSWER = list(range(100))
_TTFT_RATE = 200
_HELD_LATE_MS = 10.0
_HELD_SHARE = 0.97
Serve = Callable[[float, int], DetailLog]
"""Makes a run at a rate in queries/s for a duration in ms."""


def server_plan(rate: float, duration_ms: int) -> LoadPlan:
    """Server at a rate in queries/s, for this duration, each sample at least once."""
    return plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Server"),
        "performance",
        ROUNDS[DEFAULT_ROUND],
        SAMPLES,
        target_qps=rate,
        shortened=Shortened(duration_ms, 1, latency_percent=99),
    )


def serve_at(
    engine: Engine, rate: float, duration_ms: int, prompt: Sequence[int] = (1, 2, 3)
) -> DetailLog:
    """The log of a Server run on an engine, each query with this prompt. Raises RunError."""
    plan, prompts = server_plan(rate, duration_ms), [prompt] * SAMPLES
    with tempfile.TemporaryDirectory() as folder:
        run = runner.run_loadgen(plan, engine, prompts, Generation(), Path(folder))
    return run.logs.detail


def loadgen_alone(rate: float, duration_ms: int) -> DetailLog:
    """LoadGen with a SUT that answers inside its callback."""
    answer = np.asarray(ANSWER, dtype=np.int32)

    def issue(samples: Sequence[Any]) -> None:
        for sample in samples:
            address = answer.ctypes.data
            lg.FirstTokenComplete([lg.QuerySampleResponse(sample.id, address, 4)])
            whole = lg.QuerySampleResponse(sample.id, address, answer.nbytes, len(answer))
            lg.QuerySamplesComplete([whole])

    plan = server_plan(rate, duration_ms)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        conf = folder / runner.USER_CONF
        conf.write_text(plan.user_conf_text())
        sut = lg.ConstructSUT(issue, lambda: None)
        qsl = lg.ConstructQSL(SAMPLES, SAMPLES, lambda _: None, lambda _: None)
        settings, log = runner.loadgen_settings(plan, conf), runner.log_settings(folder)
        lg.StartTestWithLogSettings(sut, qsl, settings, log, str(folder / runner.AUDIT_CONF))
        lg.DestroyQSL(qsl)
        lg.DestroySUT(sut)
        return read_logs(folder).detail


class InstantEngine:
    """Answers each request at once, on its own thread or within the call that submits it."""

    description = EngineDescription("instant engine", "1", "instant", True, 131_072)
    alive = True

    def __init__(self, *, in_call: bool = False) -> None:
        self._in_call = in_call
        self._requests: queue.SimpleQueue[tuple[Listener, Sequence[Request], bool] | None]
        self._requests = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="instant engine", daemon=True)
        self._thread.start()

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        if self._in_call:
            _answer(listener, requests, stream)
        else:
            self._requests.put((listener, requests, stream))

    def _work(self) -> None:
        while (call := self._requests.get()) is not None:
            _answer(*call)

    def abort(self) -> None:
        """Do nothing, since no request waits for long."""

    def close(self) -> None:
        self._requests.put(None)
        self._thread.join(5)


def _answer(listener: Listener, requests: Sequence[Request], stream: bool) -> None:
    if stream:
        listener.first_tokens([(request.tag, ANSWER[:1]) for request in requests])
    listener.finished([(request.tag, ANSWER) for request in requests])


# What a rate and a first token are judged by


def is_held(
    rate: float, detail: DetailLog, *, delay_ms: float = 0.0, late_ms: float = _HELD_LATE_MS
) -> bool:
    """Whether 97% of the rate was completed, with a latency p99 of at most `late_ms` above the
    least time of an answer, `delay_ms`, by which the run outlasts LoadGen's issuing of queries."""
    late, completed = latency_ms(detail), completed_rate(detail)
    if late is None or completed is None:
        return False
    issuing_ms = detail.number("effective_min_duration_ms") or 1
    least = _HELD_SHARE * rate / (1 + delay_ms / issuing_ms)
    return late <= delay_ms + late_ms and completed >= least


def latency_ms(detail: DetailLog) -> float | None:
    """The p99 of the latencies, in ms."""
    return detail.milliseconds("result_99.00_percentile_latency_ns")


def completed_rate(detail: DetailLog) -> float | None:
    """Queries/s that were answered."""
    return detail.number("result_completed_samples_per_sec")


def ttft_ms(detail: DetailLog, percentile: str = "99.00") -> float:
    """TTFT as LoadGen reports it, in ms. Raises RunError if it reports none."""
    time_ms = detail.milliseconds(f"result_first_token_{percentile}_percentile_latency_ns")
    if time_ms is None:
        raise RunError("LoadGen reported no TTFT")
    return time_ms


def print_added_ttft(name: str, serve: Serve, pairs: int, seconds: float, aim: str) -> None:
    """The table of TTFT at 200 queries/s, in turn with LoadGen alone: what this side adds."""
    print(f"\nTTFT at {_TTFT_RATE} queries/s, ms:\n", flush=True)
    print_header("pair", f"{name} p50", "p99", "LoadGen alone p50", "p99", "p99 added", "stolen, s")
    duration_ms, differences = round(seconds * 1000), []
    sides = {
        name: lambda: serve(_TTFT_RATE, duration_ms),
        "alone": lambda: loadgen_alone(_TTFT_RATE, duration_ms),
    }
    for pair in in_turn(sides, pairs):
        suite, alone = pair.results[name], pair.results["alone"]
        differences.append(ttft_ms(suite) - ttft_ms(alone))
        times = [ttft_ms(side, at) for side in (suite, alone) for at in ("50.00", "99.00")]
        print_row(pair.number, *(f"{ms:.3f}" for ms in (*times, differences[-1], pair.stolen_s)))
    print_row("median", "", "", "", "", middle(differences, aim), "")
