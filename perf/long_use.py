"""Check whether the suite grows in long use: many runs in a session.

    python -m perf.long_use [--runs 50] [--engine stand-in|vllm]

Makes the Offline run of one session this many times; shows each process's memory, file handles and
threads after the first run and after the last, and the processes. This measures neither speed nor
an engine.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import psutil

from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import SMOKE, RunKey, Shortened
from mlperf_suite.session import load_run
from mlperf_suite.session.engine_source import EngineRequest
from mlperf_suite.session.engines import load_vllm
from mlperf_suite.session.executor import Session
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.progress_display import ProgressDisplay
from mlperf_suite.session.run_kind import Selection
from mlperf_suite.settings import resolve_settings
from perf.pairs import print_header, print_row
from perf.server_load import ANSWER

_MB = 1e6
_MAX_GROWTH = 0.02
_RUN_S = 1.0
"""The minimum duration of a run on the stand-in, in s; memory does not depend on it."""
LoadEngine = Callable[[Inputs, EngineRequest], Engine]


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds: bytes of memory, open files and sockets, threads."""

    name: str
    memory: int
    handles: int
    threads: int


def held_now() -> dict[int, Held]:
    """By process id, what this process and its descendants hold."""
    gc.collect()
    own, holdings = psutil.Process(), {}
    for process in (own, *own.children(recursive=True)):
        try:
            with process.oneshot():
                name = "suite" if process.pid == own.pid else process.name()
                memory = process.memory_info().rss
                holdings[process.pid] = Held(name, memory, process.num_fds(), process.num_threads())
        except psutil.NoSuchProcess:
            continue
    return holdings


def _session(
    key: RunKey, load: LoadEngine, results: str, after_run: Callable[[], None], **options: str
) -> None:
    """Make a run like a session does. Raises RunError if it failed."""
    arguments = {"results_dir": results, "warmup": "0", "benchmark": [key.benchmark], **options}
    settings = resolve_settings(arguments, {})
    rate_known = [key.benchmark] if settings.server_target_qps is not None else []
    plan = plan_session(
        Selection([key], repeat=settings.repeat, warm_up=False, rates_known=rate_known)
    )
    suite = Session(settings, plan, load, ProgressDisplay())
    real = runner.run_loadgen

    def run_loadgen(*arguments: object, **keywords: object) -> runner.LoadRun:
        run = real(*arguments, **keywords)  # type: ignore[arg-type]
        after_run()
        return run

    try:
        assert not suite.obstacles()
        with mock.patch.object(load_run, "run_loadgen", run_loadgen):
            outcome = suite.make(key)
    finally:
        suite.close()
    if outcome.failure is not None:
        raise RunError(outcome.failure)


def many_runs(runs: int, engine: str) -> list[str]:
    """Make the runs and print the table; return what grew, in words."""
    key = RunKey(LLAMA3_1_8B.id, "Offline", "performance")
    holdings: list[dict[int, Held]] = []
    options = {"repeat": str(runs), "offline_target_qps": "8"}
    short, load = {"Offline": Shortened(round(_RUN_S * 1000), 1)}, load_vllm
    if engine == "stand-in":
        load = _stand_in
    else:
        options |= {"total_sample_count": "4", "max_new_tokens": "16"}
    with tempfile.TemporaryDirectory() as results, mock.patch.dict(SMOKE, short):
        _session(key, load, results, lambda: holdings.append(held_now()), **options)
    first, last = holdings[0], holdings[-1]
    grown = [f"process {holding.name}" for pid, holding in last.items() if pid not in first]
    print(f"{runs} runs in one session, {engine}:\n")
    columns = "memory, MB: first", "tenth", "last", "change", "handles", "threads"
    print_header("process", *columns)
    for pid, before in first.items():
        now, tenth = last.get(pid), holdings[min(9, runs - 1)].get(pid, before)
        if now is None:
            grown.append(f"{before.name} is gone")
            continue
        change = now.memory / before.memory - 1
        memory = (f"{holding.memory / _MB:,.1f}" for holding in (before, tenth, now))
        handles = f"{before.handles} to {now.handles}"
        threads = f"{before.threads} to {now.threads}"
        print_row(now.name, *memory, f"{change:+.2%}", handles, threads)
        grown += [f"memory of {now.name} {change:+.2%}"] if change > _MAX_GROWTH else []
        grown += [f"handles of {now.name}"] if now.handles > before.handles else []
        grown += [f"threads of {now.name}"] if now.threads > before.threads else []
    print(f"\nprocesses: {len(first)} to {len(last)}; grown: {', '.join(grown) or 'nothing'}")
    return grown


def _stand_in(inputs: Inputs, request: EngineRequest) -> StandInEngine:
    return StandInEngine(Delays(), lambda _: ANSWER)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--engine", choices=("stand-in", "vllm"), default="stand-in")
    options = parser.parse_args()
    many_runs(options.runs, options.engine)


if __name__ == "__main__":
    main()
