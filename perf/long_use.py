"""Check whether the suite grows in long use: many runs in a session, many queries in a run.

    python -m perf.long_use runs [--runs 50] [--engine stand-in|vllm]
    python -m perf.long_use queries [--queries 1000000] [--rate 8000]

`runs`: makes the Offline run of one session this many times; shows each process's memory, file
handles and threads after the first run and after the last, and the processes. `queries`: makes one
Server run of this many queries on an engine that answers at once, from LoadGen to the reports;
shows the peak memory of the suite's process in each part. This measures neither speed nor an
engine.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import Engine
from mlperf_suite.engines.stand_in import Delays, StandInEngine
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import SMOKE, Shortened
from mlperf_suite.reports import writing
from mlperf_suite.results.record import RunKey
from mlperf_suite.session import executor
from mlperf_suite.session.engines import EngineRequest, load_vllm
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.session.plan import plan_session
from mlperf_suite.session.recorder import Recorder
from mlperf_suite.session.suite import Suite
from mlperf_suite.session.watcher import Silent
from mlperf_suite.settings import resolve_settings
from perf.server_overhead import ANSWER, InstantEngine

_MB = 1e6
_SAMPLED_S = 0.05
_MOST_GROWTH = 0.02
_RUN_S = 1.0
"""The minimum duration of a run on the stand-in, in s; memory does not depend on it."""
_PARTS: tuple[tuple[Any, str, str], ...] = (
    (runner, "read_logs", "logs read"),
    (runner, "timeline_of", "timeline made"),
    (runner, "write_timeline", "timeline written"),
    (executor, "performance_figures", "figures"),
    (executor, "judge", "verdicts"),
    (Recorder, "config_json", "data"),
    (writing, "read_timeline", "timeline read"),
    (writing, "plots_of", "plots"),
    (writing, "write_reports", "reports"),
)
"""The parts of the work: where a function is looked up, its name, and the part's name."""
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
    own, found = psutil.Process(), {}
    for one in (own, *own.children(recursive=True)):
        try:
            with one.oneshot():
                name = "suite" if one.pid == own.pid else one.name()
                memory = one.memory_info().rss
                found[one.pid] = Held(name, memory, one.num_fds(), one.num_threads())
        except psutil.NoSuchProcess:
            continue
    return found


def _session(
    key: RunKey, load: LoadEngine, results: str, after_run: Callable[[], None], **options: str
) -> None:
    """Make a run like a session does. Raises RunError if it failed."""
    given = {"results_dir": results, "warmup": "0", "benchmark": [key.benchmark], **options}
    settings = resolve_settings(given, {})
    known = {key.benchmark: settings.server_target_qps is not None}
    plan = plan_session([key], repeat=settings.repeat, warm_up=False, rate_known=known)
    suite = Suite(settings, plan, load, Silent())
    real = runner.run_loadgen

    def run_loadgen(*arguments: object, **named: object) -> runner.LoadRun:
        run = real(*arguments, **named)  # type: ignore[arg-type]
        after_run()
        return run

    try:
        suite.check()
        with mock.patch.object(executor, "run_loadgen", run_loadgen):
            outcome = suite.made(key)
    finally:
        suite.close()
    if outcome.failure is not None:
        raise RunError(outcome.failure)


def many_runs(runs: int, engine: str) -> list[str]:
    """Make the runs and print the table; return what grew, in words."""
    key = RunKey(LLAMA3_1_8B.id, "Offline", "performance")
    seen: list[dict[int, Held]] = []
    options = {"repeat": str(runs), "offline_target_qps": "8"}
    short, load = {"Offline": Shortened(round(_RUN_S * 1000), 1)}, load_vllm
    if engine == "stand-in":
        load = _stand_in
    else:
        options |= {"total_sample_count": "4", "max_new_tokens": "16"}
    with (
        tempfile.TemporaryDirectory() as results,
        mock.patch.dict(SMOKE, short),
    ):
        _session(key, load, results, lambda: seen.append(held_now()), **options)
    first, last = seen[0], seen[-1]
    grown = [f"process {one.name}" for pid, one in last.items() if pid not in first]
    print(f"{runs} runs in one session, {engine}:\n")
    print("| process | memory, MB: first | tenth | last | change | handles | threads |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for pid, before in first.items():
        now, tenth = last.get(pid), seen[min(9, runs - 1)].get(pid, before)
        if now is None:
            grown.append(f"{before.name} is gone")
            continue
        change = now.memory / before.memory - 1
        print(
            f"| {now.name} | {before.memory / _MB:,.1f} | {tenth.memory / _MB:,.1f} "
            f"| {now.memory / _MB:,.1f} | {change:+.2%} | {before.handles} to {now.handles} "
            f"| {before.threads} to {now.threads} |"
        )
        grown += [f"memory of {now.name} {change:+.2%}"] if change > _MOST_GROWTH else []
        grown += [f"handles of {now.name}"] if now.handles > before.handles else []
        grown += [f"threads of {now.name}"] if now.threads > before.threads else []
    print(f"\nprocesses: {len(first)} to {len(last)}; grown: {', '.join(grown) or 'nothing'}")
    return grown


def _stand_in(inputs: Inputs, request: EngineRequest) -> StandInEngine:
    return StandInEngine(Delays(), lambda _: ANSWER)


class Parts:
    """The sampled peak memory of this process in each part of its work."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[float, int]] = {}
        self._within = ["start"]
        self._began = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        own = psutil.Process()
        while not self._done.wait(_SAMPLED_S):
            name = self._within[-1]
            seconds, highest = self.found.get(name, (0.0, 0))
            self.found[name] = (seconds + _SAMPLED_S, max(highest, own.memory_info().rss))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._within.append(name)
        try:
            yield
        finally:
            self._within.pop()

    def within(self, name: str, called: Callable[..., object]) -> Callable[..., object]:
        """Wrap the function as a part with this name."""

        def call(*arguments: object, **named: object) -> object:
            with self.part(name):
                return called(*arguments, **named)

        return call

    def close(self) -> None:
        self._done.set()
        self._thread.join()


def many_queries(queries: int, rate: float) -> float:
    """Make the run and print the table; return the peak memory in bytes."""
    key = RunKey(LLAMA3_1_8B.id, "Server", "performance")
    duration_ms = round(queries / rate * 1000)
    short = {"Server": Shortened(duration_ms, queries, latency_percent=90, latency_factor=10)}
    parts, told = Parts(), []
    with (
        ExitStack() as patched,
        tempfile.TemporaryDirectory() as results,
        mock.patch.dict(SMOKE, short),
    ):
        folder = Path(results)
        for owner, name, part in _PARTS:
            watched = parts.within(part, getattr(owner, name))
            patched.enter_context(mock.patch.object(owner, name, watched))
        with parts.part("session, LoadGen's run among it"):
            _session(key, _instant, results, lambda: None, server_target_qps=str(rate))
        for path in folder.glob("2*/summary.json"):
            figures = json.loads(path.read_text())["run"]["performance"]
            told.append((figures["total_new_tokens"] // len(ANSWER), figures["duration_s"]))
        written = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    parts.close()
    print(f"{told[0][0]:,} queries at {rate:,.0f} queries/s in {told[0][1]:,.0f} s:\n")
    print("| part | s | highest memory, MB |\n|---|---:|---:|")
    for name, (seconds, highest) in parts.found.items():
        print(f"| {name} | {seconds:.1f} | {highest / _MB:,.0f} |")
    # In kB on Linux, for the whole life of the process.
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"| highest of all | | **{highest / _MB:,.0f}** (aim: below 1,500) |")
    print(f"\nThe run's folder has {written / _MB:,.1f} MB.")
    return highest


def _instant(inputs: Inputs, request: EngineRequest) -> InstantEngine:
    return InstantEngine()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="what", required=True)
    runs = commands.add_parser("runs")
    runs.add_argument("--runs", type=int, default=50)
    runs.add_argument("--engine", choices=("stand-in", "vllm"), default="stand-in")
    queries = commands.add_parser("queries")
    queries.add_argument("--queries", type=int, default=1_000_000)
    queries.add_argument("--rate", type=float, default=8_000.0)
    chosen = parser.parse_args()
    if chosen.what == "runs":
        many_runs(chosen.runs, chosen.engine)
    else:
        many_queries(chosen.queries, chosen.rate)


if __name__ == "__main__":
    main()
