"""The runs kept in a results folder: one entry each, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.results.run_folder import SUMMARY_JSON, read_object, read_summary, run_folders
from mlperf_suite.results.schema import UNKNOWN, RepeatFigures, Summary, version_fault


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One run. A folder without a readable summary has `status` "no summary", or says which version
    of the format it is."""

    name: str
    status: str
    summary: Summary

    @property
    def kind(self) -> str:
        """Benchmark and scenario."""
        return self.summary.meta.title or "?"

    @property
    def model(self) -> str:
        return self.summary.meta.model or "?"

    @property
    def measured(self) -> str:
        """Model, samples, engine and machine."""
        return self.summary.measured

    @property
    def label(self) -> str:
        return self.summary.meta.label or ""

    @property
    def performance(self) -> RepeatFigures:
        """Its performance figures; each is None if there are none."""
        return self.summary.run.performance or RepeatFigures()

    @property
    def gate(self) -> str:
        """The worst outcome of the regression gate; empty if nothing was compared."""
        regression = self.summary.regression
        outcomes = [change.outcome for change in regression.metrics] if regression else []
        ranks = ("regressed", "cannot tell", "improved", "unchanged")
        return next((outcome for outcome in ranks if outcome in outcomes), "")

    @property
    def system(self) -> str:
        """The hardware, or the remote servers."""
        return ", ".join(self.summary.machines)

    @property
    def line(self) -> tuple[str, str]:
        """What the runs of a trend have in common: system and workload."""
        sent_by = self.summary.meta.load_generator
        words = [self.kind, self.model, self.label, *([sent_by] if sent_by else [])]
        return self.system, ", ".join(words)


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
    status = summary.meta.status
    if status == UNKNOWN:
        status = version_fault(read_object(folder / SUMMARY_JSON) or {}) or "no summary"
    return KeptRun(folder.name, status, summary)


def trends_of(entries: list[KeptRun]) -> list[Trend]:
    """The main metric of each system and scenario with at least two runs that are results."""
    points: dict[tuple[str, str], list[tuple[str, float]]] = {entry.line: [] for entry in entries}
    for entry in reversed(entries):
        latency_ms, rate = entry.performance.latency_ms, entry.performance.tokens_per_sec
        value = (latency_ms or {}).get("p90") if _is_single(entry.line) else rate
        if value is not None and not entry.summary.no_result:
            points[entry.line].append((entry.name, value))
    return [
        Trend(*line, "latency p90, ms" if _is_single(line) else "tokens/s", tuple(of_line))
        for line, of_line in points.items()
        if len(of_line) > 1
    ]


def _is_single(line: tuple[str, str]) -> bool:
    return " SingleStream," in line[1]
