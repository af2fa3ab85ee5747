"""What is known of a result while it is made, and its summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mlperf_suite.benchmarks.definition import Benchmark, Category, Scenario
from mlperf_suite.benchmarks.workload import ROUGE_NAMES
from mlperf_suite.compliance.rules import RunFacts, accuracy_verdict
from mlperf_suite.compliance.verdict import Verdict
from mlperf_suite.hardware import describe_system
from mlperf_suite.loadgen.load_plan import Mode
from mlperf_suite.loadgen.runner import loadgen_version
from mlperf_suite.results.run_folder import RunFolder
from mlperf_suite.scorers.rouge import RougeScores
from mlperf_suite.session.peak_search import PeakSearch
from mlperf_suite.settings import Settings

SCHEMA_VERSION = 4
"""Of summary.json. 2 added run.performance.blocks, repeats and target_qps, run.accuracy's
standard_error, and regression; 3 run.performance.early_stopping and invalid_reason, and peak; 4
meta.samples and max_new_tokens, and peak.bounded. Each only adds: older ones stay readable."""
MODES: tuple[Mode, ...] = ("accuracy", "performance", "test06")


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run: a category's scenario in one mode."""

    category: Category
    scenario: str
    mode: Mode

    def __str__(self) -> str:
        return f"{self.category} {self.scenario} {self.mode}"


@dataclass(slots=True)
class Stage:
    """One LoadGen run of a result: its verdicts and figures, or why there are none."""

    verdicts: list[Verdict] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    rate: float | None = None
    failure: str | None = None


@dataclass(slots=True)
class Search:
    """The search for the highest valid rate: what it found, or why it died; neither while it goes
    on."""

    found: PeakSearch | None = None
    failure: str | None = None


@dataclass(slots=True)
class Result:
    """One category's scenario: its folder, and what was made so far. `search`: None where no rate
    was searched for. `cut_short`: why its session ended before all that was planned was made."""

    benchmark: Benchmark
    scenario: Scenario
    folder: RunFolder
    started: datetime
    stages: dict[Mode, Stage] = field(default_factory=dict)
    search: Search | None = None
    cut_short: str | None = None

    @property
    def failure(self) -> str | None:
        """Why a stage of this result, or its search, died or was never made, or None."""
        made = (*self.stages.values(), *([self.search] if self.search else ()))
        return next((one.failure for one in made if one.failure), self.cut_short)

    @property
    def verdicts(self) -> list[Verdict]:
        return [v for mode in MODES if mode in self.stages for v in self.stages[mode].verdicts]


def summary_json(
    result: Result, settings: Settings, label: str, planned: set[Mode], samples: int
) -> dict[str, Any]:
    """summary.json of a result as it stands.

    `planned`: the runs that the user selected of it. `samples`: how many each of its runs takes.
    """
    finished = {mode for mode, stage in result.stages.items() if stage.verdicts}
    return {
        "schema_version": SCHEMA_VERSION,
        "meta": {
            "category": result.benchmark.category,
            "scenario": result.scenario.name,
            "benchmark": result.benchmark.id,
            "model": settings.model,
            "dataset": settings.dataset,
            "samples": samples,
            "max_new_tokens": settings.max_new_tokens,
            "round": settings.round.name,
            "profile": settings.profile,
            "label": label,
            "started": result.started.isoformat(timespec="seconds"),
            "node_name": settings.node_name,
            "status": _status(result, planned - finished),
            "reason": result.failure,
        },
        "system": {**describe_system(), "loadgen_version": loadgen_version()},
        "run": {mode: stage.figures or None for mode, stage in result.stages.items()},
        "peak": _peak(result.search),
        "verdicts": [v.as_json() for v in result.verdicts],
        "logs": _files(result, "mlperf_log_*"),
        "plots": _files(result, "plots/*"),
    }


def _status(result: Result, unfinished: set[Mode]) -> str:
    """failed: died; running: not over; invalid: a rule failed, no rate held; else complete."""
    if result.failure is not None:
        return "failed"
    search = result.search
    searching = search is not None and search.found is None
    if unfinished or searching or not (result.verdicts or search):
        return "running"
    no_rate = search is not None and search.found is not None and search.found.peak_qps is None
    broken = no_rate or any(v.status == "failed" for v in result.verdicts)
    return "invalid" if broken else "complete"


def _peak(search: Search | None) -> dict[str, Any] | None:
    """summary.json's peak: queries/s, None where no rate was valid; whether a rate above it
    failed; the number of runs."""
    if search is None or search.found is None:
        return None
    found = search.found
    return {"peak_qps": found.peak_qps, "bounded": found.bounded, "runs": len(found.trials)}


def _files(result: Result, pattern: str) -> list[str]:
    root = result.folder.path
    return sorted(str(p.relative_to(root)) for p in root.rglob(pattern) if p.is_file())


def accuracy_figures(
    scores: RougeScores, facts: RunFacts, verdicts: list[Verdict]
) -> dict[str, Any]:
    """summary.json's run.accuracy: scores in percent, lengths in characters."""
    return {
        "total_samples": facts.logs.detail["qsl_reported_total_count"],
        "rouge": {name: getattr(scores, name) for name in ROUGE_NAMES},
        "passed": accuracy_verdict(verdicts),
        "run_gen_len": scores.gen_len,
        "run_gen_num": scores.gen_num,
        "standard_error": scores.standard_errors,
    }


def rouge_json(scores: RougeScores, facts: RunFacts) -> Mapping[str, object]:
    """rouge.json: scores and thresholds in percent, lengths in characters."""
    baseline = facts.baseline
    content: dict[str, object] = {name: getattr(scores, name) for name in ROUGE_NAMES}
    content["baseline"] = dict(baseline.rouge) if baseline else None
    content["baseline_gen_len"] = baseline.gen_len if baseline else None
    content["baseline_source"] = baseline.source if baseline else None
    content["gate_multiplier"] = facts.gate if baseline else None
    for name in ROUGE_NAMES:
        value = round(baseline.rouge[name] * facts.gate, 4) if baseline else None
        content[f"threshold_{name}"] = value
    content["run_gen_len"], content["run_gen_num"] = scores.gen_len, scores.gen_num
    return content
