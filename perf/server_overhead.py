"""What the suite itself adds in Server, measured with a stand-in engine of known delays.

    python -m perf.server_overhead

First row: the time to first token that LoadGen reports, less the engine's own known delay, at 200
queries/s. Second row: the highest rate that LoadGen, SUT and an instant engine hold, each query
streaming a first token and an answer of 100 tokens; beside it the rate of LoadGen alone, with a
SUT that answers inside the callback. A rate is held where 97% of it is completed in each second and
p99 of the latency is at most 10 ms. None of this measures an engine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg
import numpy as np

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.rounds import DEFAULT_ROUND, ROUNDS
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.stand_in import Delays, StandInEngine
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened, plan_run
from mlperf_suite.loadgen.logs import DetailLog, read_logs

SAMPLES = 1000
ANSWER = list(range(100))
_DELAYS = Delays(first_token_s=0.050, rest_s=0.100)
_HELD_LATE_MS = 10.0
_HELD_SHARE = 0.97
_RATES = (2_000, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000, 12_000, 15_000, 20_000)


def server_plan(rate: float, duration_ms: int, samples: int = SAMPLES) -> LoadPlan:
    """Server at a rate in queries/s, for so long, each sample once at least."""
    return plan_run(
        LLAMA3_1_8B,
        LLAMA3_1_8B.scenario("Server"),
        "performance",
        ROUNDS[DEFAULT_ROUND],
        samples,
        target_qps=rate,
        shortened=Shortened(duration_ms, 1, latency_percent=99),
    )


def served(
    engine: Engine,
    rate: float,
    duration_ms: int,
    prompt: Sequence[int] = (1, 2, 3),
    samples: int = SAMPLES,
) -> DetailLog:
    """The log of a Server run on an engine, each query with this prompt. Raises RunError."""
    plan = server_plan(rate, duration_ms, samples)
    prompts = [prompt] * samples
    with tempfile.TemporaryDirectory() as folder:
        run = runner.run_loadgen(plan, engine, prompts, Generation(), Path(folder))
    return run.logs.detail


def loadgen_alone(rate: float, duration_ms: int) -> DetailLog:
    """LoadGen with a SUT that answers inside its callback: what no suite can beat."""
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


def held(rate: float, detail: DetailLog, delay_ms: float = 0.0) -> tuple[bool, str]:
    """Whether the rate was held, and what was seen. `delay_ms`: what an answer takes anyway, and so
    what the run lasts longer than LoadGen issues queries."""
    late = detail.milliseconds("result_99.00_percentile_latency_ns")
    completed = detail.number("result_completed_samples_per_sec")
    if late is None or completed is None:
        return False, "nothing reported"
    issuing_ms = detail.number("effective_min_duration_ms") or 1
    least = _HELD_SHARE * rate / (1 + delay_ms / issuing_ms)
    ok = late <= delay_ms + _HELD_LATE_MS and completed >= least
    return ok, f"completed {completed:,.0f} queries/s, p99 {late:.2f} ms"


def _highest(name: str, serve: Any) -> None:
    highest = 0
    for rate in _RATES:
        ok, seen = held(rate, serve(rate))
        highest = rate if ok else highest
        print(f"  {name}: {rate:,} queries/s: {seen}, {'held' if ok else 'not held'}")
        if not ok:
            break
    print(f"  {name} holds {highest:,} queries/s")


def main() -> None:
    engine = StandInEngine(_DELAYS, lambda _: ANSWER)
    detail = served(engine, 200, 20_000)
    engine.close()
    print("added to the time to first token, 200 queries/s, engine delay 50 ms:")
    for percentile in ("50.00", "99.00", "99.90"):
        ttft = detail.milliseconds(f"result_first_token_{percentile}_percentile_latency_ns")
        if ttft is not None:
            print(f"  p{percentile}: {ttft - _DELAYS.first_token_s * 1000:.3f} ms")
    print("highest rate, Server, first token and 100 tokens:")
    instant = StandInEngine(Delays(), lambda _: ANSWER)
    _highest("suite with an instant engine", lambda rate: served(instant, rate, 5_000))
    instant.close()
    _highest("LoadGen alone", lambda rate: loadgen_alone(rate, 5_000))


if __name__ == "__main__":
    main()
