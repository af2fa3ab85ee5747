"""The record of a result while it runs, and the summary and score files written from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Protocol

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import Benchmark, ReferenceAccuracy, Scenario
from mlperf_suite.engines.protocol import RemoteRun
from mlperf_suite.feature import features
from mlperf_suite.loadgen.load_plan import MODES
from mlperf_suite.results.run_folder import BLOCKS_FOLDER, RunFolder
from mlperf_suite.results.schema import (
    AccuracyFigures,
    PerformanceFigures,
    ScoreFigures,
    Summary,
    WarmUpFigures,
)
from mlperf_suite.rules.facts import AnswerTokens
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.scorers.scorer import Scores


@dataclass(slots=True)
class RunRecord:
    """One run of a result: its verdicts and figures, or why there are none.

    `rate`: samples/s of an accuracy run, used to plan Offline. `warm_up`: the warm-up before it,
    None if there was none. `remote`: what a remote server and its client reported, None if the
    engine is in this process. `answers`: the answer lengths of an accuracy run. `parts`: the
    figures that features add, by their names in summary.json.
    """

    verdicts: list[Verdict] = field(default_factory=list)
    figures: AccuracyFigures | PerformanceFigures | None = None
    rate: float | None = None
    failure: str | None = None
    warm_up: WarmUpFigures | None = None
    remote: RemoteRun | None = None
    answers: AnswerTokens | None = None
    parts: dict[str, object] = field(default_factory=dict)


class ResultPart(Protocol):
    """A part of a result beside its runs. `failure`: why it failed, or None.

    `complete`: whether it ended. `spoiled`: whether what it found makes the result invalid.
    `optional`: whether the runs beside it stand without it, so that its failure is not theirs.
    """

    failure: str | None
    optional: ClassVar[bool]

    @property
    def complete(self) -> bool: ...
    @property
    def spoiled(self) -> bool: ...
    def summed_up(self, summary: Summary) -> Summary:
        """The summary with this part's figures."""
        ...


@dataclass(slots=True)
class Result:
    """One benchmark's scenario: its folder, and its runs so far. `parts`: what other kinds of runs
    make of it, by their names. `ended`: when its latest run ended. `cut_short`: why its
    session ended before everything planned was done. `unwritten`: why its files could not
    all be written. `not_submittable`: why it cannot be submitted whatever its rules say."""

    benchmark: Benchmark
    scenario: Scenario
    folder: RunFolder
    started: datetime
    runs: dict[Mode, RunRecord] = field(default_factory=dict)
    parts: dict[str, ResultPart] = field(default_factory=dict)
    ended: str | None = None
    cut_short: str | None = None
    unwritten: str | None = None
    not_submittable: str | None = None

    @property
    def benchmark_and_scenario(self) -> tuple[str, str]:
        return self.benchmark.id, self.scenario.name

    @property
    def decisive_parts(self) -> list[ResultPart]:
        """The parts without which the result is not whole: beside runs, optional ones that failed
        are not among them."""
        parts = self.parts.values()
        return [part for part in parts if not (self.runs and part.optional and part.failure)]

    @property
    def failure(self) -> str | None:
        """Why a run or part of this result failed or was not made or written, or None."""
        attempts: list[RunRecord | ResultPart] = [*self.runs.values(), *self.decisive_parts]
        died = next((made.failure for made in attempts if made.failure), None)
        return died or self.cut_short or self.unwritten

    @property
    def verdicts(self) -> list[Verdict]:
        modes = [mode for mode in MODES if mode in self.runs]
        modes += [mode for mode in self.runs if mode not in MODES]
        return [v for mode in modes for v in self.runs[mode].verdicts]


def summary_of(result: Result, session: Summary, selection: set[Mode]) -> Summary:
    """The current summary of a result.

    `session`: what the session knows besides the runs: the settings as used in `meta`, the system,
    the plan with its times so far, the measurements of the engine. `selection`: the modes that the
    user selected.
    """
    runs = result.runs
    finished = {mode for mode, run in runs.items() if run.verdicts}
    figures = {mode: run.figures for mode, run in runs.items()}
    accuracy, performance = figures.get("accuracy"), figures.get("performance")
    names = ("mlperf_log_*", *(name for feature in features() for name in feature.logs))
    summary = replace(
        session,
        meta=replace(
            session.meta,
            category=result.benchmark.category,
            scenario=result.scenario.name,
            benchmark=result.benchmark.id,
            started=result.started.isoformat(timespec="seconds"),
            ended=result.ended,
            status=_status(result, selection - finished),
            reason=result.failure,
            not_submittable=result.not_submittable,
        ),
        run=replace(
            session.run,
            accuracy=accuracy if isinstance(accuracy, AccuracyFigures) else None,
            performance=performance if isinstance(performance, PerformanceFigures) else None,
            warm_up={str(mode): run.warm_up for mode, run in runs.items() if run.warm_up},
            remote={str(mode): run.remote for mode, run in runs.items() if run.remote},
        ),
        parts={
            **session.parts,
            **{name: part for run in runs.values() for name, part in run.parts.items()},
        },
        verdicts=tuple(result.verdicts),
        logs=tuple(path for name in names for path in _files(result, name)),
        plots=_files(result, "plots/*"),
    )
    for part in result.parts.values():
        summary = part.summed_up(summary)
    label = "; ".join(filter(None, (summary.no_result, summary.meta.label)))
    return replace(summary, meta=replace(summary.meta, label=label))


def _status(result: Result, unfinished: set[Mode]) -> str:
    """The status: failed (a run died), running, invalid (a rule failed, or a part found nothing
    that holds), or complete."""
    if result.failure is not None:
        return "failed"
    parts = result.decisive_parts
    if unfinished or not all(part.complete for part in parts) or not (result.verdicts or parts):
        return "running"
    is_lost = any(part.spoiled for part in parts)
    rule_failed = is_lost or any(v.status == "failed" for v in result.verdicts)
    return "invalid" if rule_failed else "complete"


def _files(result: Result, pattern: str) -> tuple[str, ...]:
    root = result.folder.path
    paths = (p.relative_to(root) for p in root.rglob(pattern) if p.is_file())
    # An audit of blocks has dozens of logs, with a folder for each.
    return tuple(sorted(str(path) for path in paths if path.parts[0] != BLOCKS_FOLDER))


def accuracy_figures(
    scores: Scores,
    reference: ReferenceAccuracy | None,
    high_accuracy: bool,
    total_samples: int | None,
    passed: bool | None,
) -> AccuracyFigures:
    """An accuracy run's figures, each score with its passing range, in the score's unit.

    `reference`: what these samples must score, None if unknown. `total_samples`: the size of the
    data. `passed`: the verdict of the accuracy rules.
    """
    errors = scores.standard_errors
    figures: list[ScoreFigures] = []
    for score in scores.scores:
        target = reference.of(score.name) if reference else None
        figures.append(
            ScoreFigures(
                score.name,
                score.value,
                score.unit,
                low=round(target.low(strict=high_accuracy), 4) if target else None,
                high=round(target.high, 4) if target and target.high is not None else None,
                reference=target.value if target else None,
                standard_error=errors.get(score.name),
            )
        )
    return AccuracyFigures(total_samples, passed, tuple(figures))


def scorer_json(
    scores: Scores, reference: ReferenceAccuracy | None, high_accuracy: bool
) -> dict[str, object]:
    """The content of Accuracy/<scorer>.json: percentages by name, other figures as run_<name>.

    `baseline`: the percentages' reference accuracy, `baseline_<name>` that of the others.
    `gate_multiplier`: the share of the reference needed to pass; by name if the shares differ.
    `threshold_<name>`: the minimum score. Without a reference these are None. `not_judged`: by
    figure, why it could not be computed; absent if all were.
    """
    percentages = [score for score in scores.scores if score.unit == "%"]
    figures = [score for score in scores.scores if score.unit != "%"]
    content: dict[str, object] = {score.name: score.value for score in percentages}
    if scores.not_judged:
        content["not_judged"] = dict(scores.not_judged)
    targets = {target.name: target for target in reference.scores} if reference else {}
    gated = {s.name: targets[s.name] for s in percentages if s.name in targets}
    content["baseline"] = {n: target.value for n, target in gated.items()} if reference else None
    for score in figures:
        if reference is None or score.name in targets:
            target = targets.get(score.name)
            content[f"baseline_{score.name}"] = target.value if target else None
    content["baseline_source"] = reference.source if reference else None
    shares = {n: e.strict_share if high_accuracy else e.share for n, e in gated.items()}
    alike = len(set(shares.values())) == 1
    content["gate_multiplier"] = (next(iter(shares.values())) if alike else shares) or None
    for score in percentages:
        least = gated.get(score.name)
        value = round(least.low(strict=high_accuracy), 4) if least else None
        content[f"threshold_{score.name}"] = value
    content |= {f"run_{score.name}": score.value for score in figures}
    return content
