"""What the kept runs of a results folder were: one entry each, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.results.reading import items, number, part
from mlperf_suite.results.run_folder import read_summary, run_folders


@dataclass(frozen=True, slots=True)
class Entry:
    """One run. A folder without a summary that can be read has `status` "no summary".

    Rates are per second, times in ms, rouge1 and mmlu in percent; None is not there.
    """

    name: str
    status: str
    model: str
    label: str
    kind: str
    system: str
    tokens_per_s: float | None
    samples_per_s: float | None
    ttft_p99_ms: float | None
    latency_p90_ms: float | None
    rouge1: float | None
    mmlu: float | None
    gate: str

    @property
    def line(self) -> tuple[str, str]:
        """What runs of one trend have in common: where and what."""
        return self.system, f"{self.kind}, {self.model}, {self.label}"


@dataclass(frozen=True, slots=True)
class Trend:
    """One system's scenario over time. `points`: run and value, oldest first."""

    system: str
    what: str
    unit: str
    points: tuple[tuple[str, float], ...]


def read_entries(results_dir: Path) -> list[Entry]:
    """Every kept run, newest first; never raises for what is in a folder."""
    return [_entry(folder.name, read_summary(folder) or {}) for folder in run_folders(results_dir)]


def _entry(name: str, summary: Mapping[str, Any]) -> Entry:
    meta, system = part(summary, "meta"), part(summary, "system")
    performance = part(summary, "run", "performance")
    gpus = system.get("gpus")
    count = system.get("cpu_count")
    hardware = ", ".join(map(str, gpus)) if isinstance(gpus, list) and gpus else ""
    outcomes = [
        str(one.get("outcome"))
        for one in items(part(summary, "regression"), "metrics")
        if isinstance(one, dict)
    ]
    return Entry(
        name=name,
        status=str(meta.get("status", "no summary")),
        model=str(meta.get("model", "?")),
        label=str(meta.get("label", "")),
        kind=f"{meta.get('category', '?')} {meta.get('scenario', '?')}",
        system=hardware or f"{system.get('cpu', '?')}, {count or '?'} cores",
        tokens_per_s=number(performance, "tokens_per_sec"),
        samples_per_s=number(performance, "samples_per_sec"),
        ttft_p99_ms=number(performance, "ttft_ms", "p99"),
        latency_p90_ms=number(performance, "latency_ms", "p90"),
        rouge1=number(summary, "run", "accuracy", "rouge", "rouge1"),
        mmlu=number(summary, "run", "mmlu", "accuracy"),
        gate=next((o for o in ("regressed", "cannot tell", "improved") if o in outcomes), "")
        or ("unchanged" if outcomes else ""),
    )


def trends_of(entries: list[Entry]) -> list[Trend]:
    """The main metric of each system and scenario that has two runs or more."""
    trends = []
    for line in dict.fromkeys(entry.line for entry in entries):
        single = " SingleStream," in line[1]
        unit = "latency p90, ms" if single else "tokens/s"
        points = [
            (entry.name, value)
            for entry in reversed(entries)
            if entry.line == line
            and (value := entry.latency_p90_ms if single else entry.tokens_per_s) is not None
        ]
        if len(points) > 1:
            trends.append(Trend(*line, unit, tuple(points)))
    return trends
