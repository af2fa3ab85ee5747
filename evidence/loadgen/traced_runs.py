"""Runs with LoadGen's trace, which the suite's runs do not write: each sample's latency in ns."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from meta_tests.loadgen.made_plans import GENERATION, PROMPTS, a_plan, answer
from meta_tests.stand_in import Delays, StandInEngine
from mlperf_suite.engines.protocol import EngineTrace, RequestTimestamps, Steps
from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.load_plan import LoadPlan, Shortened
from mlperf_suite.loadgen.runner import LoadRun, run_loadgen
from mlperf_suite.loadgen.timeline import Timeline, read_timeline

SCENARIOS = ("Offline", "Server", "SingleStream")
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


class Spread(StandInEngine):
    """Answers that take from 2 to 60 ms, and marks as a server's scheduler would tell them."""

    def __init__(self) -> None:
        super().__init__(Delays(), answer)
        self._random = random.Random(7)
        self._marks = RequestTimestamps("front end", "queue", "prefill", "decode")
        self.steps_made = 0
        self._tags: list[int] = []

    def submit(self, requests: Sequence[Any], *arguments: Any, **options: Any) -> None:
        self._tags = [request.tag for request in requests]
        super().submit(requests, *arguments, **options)

    def _times(self, now: float, tokens: int) -> tuple[float, float]:
        first = now + 0.001 + self._random.expovariate(1 / 0.004)
        last = first + 0.001 + self._random.expovariate(1 / 0.010)
        self._marks.keep(self._tags.pop(0), 0, now, (now + first) / 2, first, last)
        return first, last

    def take_trace(self) -> EngineTrace:
        marks, self._marks = self._marks, RequestTimestamps(*self._marks.parts)
        return EngineTrace(Steps(), marks)


@dataclass(frozen=True)
class Traced:
    """A run, and of each of its samples in the order of issue what LoadGen's trace says."""

    plan: LoadPlan
    run: LoadRun
    timeline: Timeline
    trace: Trace


def traced_runs(folder: Path) -> dict[str, Traced]:
    """By scenario, a run of an engine whose delays are spread, with LoadGen's trace."""
    runs = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "log_settings", _with_trace)
        for scenario in SCENARIOS:
            engine = Spread()
            plan = a_plan(scenario, "performance", Shortened(1, 64, latency_percent=99))
            run = run_loadgen(plan, engine, PROMPTS, GENERATION, folder / scenario)
            engine.close()
            timeline = read_timeline(folder / scenario)
            assert timeline is not None
            runs[scenario] = Traced(plan, run, timeline, _read_trace(folder / scenario))
    return runs


_LOG_SETTINGS = runner.log_settings


def _with_trace(folder: Path) -> Any:
    settings = _LOG_SETTINGS(folder)
    settings.enable_trace = True
    return settings


def _read_trace(folder: Path) -> Trace:
    entries = _ENTRY.findall((folder / "mlperf_log_trace.json").read_text())
    rows = sorted(
        (int(n), int(of), float(at), int(latency_ns) / 1e6) for at, n, of, latency_ns in entries
    )
    return Trace([row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows])
