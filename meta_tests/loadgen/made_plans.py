"""Short plans of LoadGen's runs, and engines that answer them in process."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.definition import Benchmark, Generation
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B, LLAMA3_1_8B_EDGE
from mlperf_suite.benchmarks.rounds import ROUNDS, Round
from mlperf_suite.engines.protocol import EngineDescription, Listener, Request, RequestList
from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened, plan_run
from mlperf_suite.loadgen.runner import LoadRun, Progress, check_round, run_loadgen

SAMPLES = 20
# The first token says which sample it is.
PROMPTS = [[index, *range(index % 7)] for index in range(SAMPLES)]
SHORT = Shortened(min_duration_ms=100, min_query_count=21)
GENERATION = Generation(max_new_tokens=8)


def shipped_round() -> Round:
    """The round whose seeds the installed LoadGen ships."""
    for round_ in ROUNDS.values():
        try:
            check_round(round_)
        except UsageError:
            continue
        return round_
    raise AssertionError("the installed LoadGen is of no round that is known")


def plan_of(
    benchmark: Benchmark,
    scenario: str = "Offline",
    mode: str = "accuracy",
    samples: int = SAMPLES,
    shortened: Shortened | None = SHORT,
    *,
    target_qps: float = 200.0,
    latency_ms: float = 2.0,
) -> LoadPlan:
    return plan_run(
        benchmark,
        benchmark.scenario(scenario),
        mode,
        shipped_round(),
        samples,
        target_qps=target_qps,
        expected_latency_ms=latency_ms,
        shortened=shortened,
    )


def a_plan(
    scenario: str = "Offline", mode: str = "accuracy", shortened: Shortened = SHORT
) -> LoadPlan:
    benchmark = LLAMA3_1_8B_EDGE if scenario == "SingleStream" else LLAMA3_1_8B
    return plan_of(benchmark, scenario, mode, shortened=shortened)


def answer(prompt: Sequence[int]) -> list[int]:
    return [prompt[0] + 100, *prompt[1:], 128_009]


def stand_in(fail_after: int | None = None, rest_s: float = 0.001) -> StandInEngine:
    return StandInEngine(Delays(0.001, rest_s), answer, fail_after=fail_after)


class ScriptedEngine:
    """Hands each submitted batch to `script`, on a thread of its own as a real engine would."""

    description = EngineDescription("scripted", "1", "none", stand_in=True, max_model_len=100)
    alive = True

    def __init__(self, script: Callable[[list[Request], Listener], None]) -> None:
        self._script = script
        self.aborted = False

    def submit(
        self, requests: RequestList, generation: Generation, listener: Listener, *, stream: bool
    ) -> None:
        threading.Thread(target=self._script, args=(list(requests), listener)).start()

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        """Nothing to stop."""


def run(
    plan: LoadPlan,
    engine: StandInEngine | ScriptedEngine,
    folder: Path,
    on_progress: Callable[[Progress], None] | None = None,
    grace_s: float = 120.0,
) -> LoadRun:
    return run_loadgen(plan, engine, PROMPTS, GENERATION, folder, on_progress, grace_s)
