"""LoadGen's trace, which the suite's runs do not write: the latency of each sample in ns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlperf_suite.loadgen import runner
from mlperf_suite.loadgen.timeline import Timeline

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
    entries = _ENTRY.findall((folder / "mlperf_log_trace.json").read_text())
    rows = sorted(
        (int(n), int(of), float(at), int(latency_ns) / 1e6) for at, n, of, latency_ns in entries
    )
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
