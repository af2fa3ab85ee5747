"""The runs kept in a results folder: one entry each, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.energy.energy_figures import EnergyFigures
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_object, read_summary, run_folders
from mlperf_suite.results.schema import (
    UNKNOWN,
    RepeatFigures,
    ScoreFigures,
    Summary,
    version_fault,
)


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One run. A folder without a readable summary has `status` "no summary".

    `kind`: benchmark and scenario. `started`: in ISO format, empty if unknown. Rates are per
    second, times in ms, mmlu in percent; None if absent. `score`: the scorer's first score.
    `no_result`: why its figures are not a result and not part of a trend.
    """

    name: str
    started: str
    status: str
    model: str
    label: str
    kind: str
    system: str
    tokens_per_s: float | None
    samples_per_s: float | None
    ttft_p99_ms: float | None
    latency_p90_ms: float | None
    score: ScoreFigures | None
    mmlu: float | None
    gate: str
    no_result: str = ""
    energy: EnergyFigures | None = None

    @property
    def line(self) -> tuple[str, str]:
        """What the runs of a trend have in common: system and workload."""
        return self.system, f"{self.kind}, {self.model}, {self.label}"


@dataclass(frozen=True, slots=True)
class Trend:
    """One system's scenario over time. `points`: run and value, oldest first."""

    system: str
    runs: str
    unit: str
    points: tuple[tuple[str, float], ...]


def read_entries(results_dir: Path) -> list[KeptRun]:
    """Every kept run, newest first; never raises because of a folder's content."""
    return [_entry(folder) for folder in run_folders(results_dir)]


def _entry(folder: Path) -> KeptRun:
    summary = read_summary(folder) or Summary()
    meta, run = summary.meta, summary.run
    performance = run.performance or RepeatFigures()
    outcomes = (
        [change.outcome for change in summary.regression.metrics] if summary.regression else []
    )
    return KeptRun(
        name=folder.name,
        started=meta.started or "",
        status=_status(folder, meta.status),
        model=meta.model or "?",
        label=meta.label or "",
        kind=meta.title or "?",
        system=_where(summary),
        tokens_per_s=performance.tokens_per_sec,
        samples_per_s=performance.samples_per_sec,
        ttft_p99_ms=(performance.ttft_ms or {}).get("p99"),
        latency_p90_ms=(performance.latency_ms or {}).get("p90"),
        score=next(iter(run.accuracy.scores), None) if run.accuracy else None,
        mmlu=run.mmlu.accuracy if run.mmlu else None,
        gate=next((o for o in ("regressed", "cannot tell", "improved") if o in outcomes), "")
        or ("unchanged" if outcomes else ""),
        no_result=summary.no_result,
        energy=run.energy,
    )


def _status(folder: Path, status: str) -> str:
    if status != UNKNOWN:
        return status
    return version_fault(read_object(folder / SUMMARY_JSON) or {}) or "no summary"


def _where(summary: Summary) -> str:
    """The hardware; for a remote server its URL, since its hardware is unknown."""
    urls = {endpoint.url for run in summary.run.remote.values() for endpoint in run.endpoints}
    return ", ".join(sorted(urls)) if urls else _hardware(summary.system)


def _hardware(system: Mapping[str, object]) -> str:
    gpus = system.get("gpus")
    if isinstance(gpus, list) and gpus:
        return ", ".join(map(str, gpus))
    return f"{system.get('cpu', '?')}, {system.get('cpu_count') or '?'} cores"


def trends_of(entries: list[KeptRun]) -> list[Trend]:
    """The main metric of each system and scenario with at least two runs."""
    trends = []
    for line in dict.fromkeys(entry.line for entry in entries):
        single = " SingleStream," in line[1]
        unit = "latency p90, ms" if single else "tokens/s"
        points = [
            (entry.name, value)
            for entry in reversed(entries)
            if entry.line == line
            and not entry.no_result
            and (value := entry.latency_p90_ms if single else entry.tokens_per_s) is not None
        ]
        if len(points) > 1:
            trends.append(Trend(*line, unit, tuple(points)))
    return trends
