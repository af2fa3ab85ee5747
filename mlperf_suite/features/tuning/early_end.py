"""Which trial is ended early, from what its files show by then, and on which evidence."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.features.tuning.early_stopping import (
    AccuracyCheck,
    Estimate,
    cannot_win,
    full_rate,
)
from mlperf_suite.features.tuning.space import Settings, Trial
from mlperf_suite.features.tuning.target import trial_files
from mlperf_suite.features.tuning.trial_run import EarlyEndCheck, MeasuredTrial, probe_of
from mlperf_suite.results.baseline import answer_scores
from mlperf_suite.rules.verdict import figure_words

_SHARE = 0.99
"""Of the default's score on the same samples, which settings must keep: MLPerf's usual share of a
reference."""
_MIN_RUNS = 3
"""Runs from which the probe's error is known."""
_UNKNOWN_ERROR, _MIN_ERROR = 0.25, 0.05
_LOOKS = 1


@dataclass(frozen=True, slots=True)
class Leader:
    """What a trial is held against: the best rate in the search's model; a run whose probe and rate
    are known; how far probes were off, as a relative standard error."""

    best: Estimate
    probe: float
    rate: float
    error: float
    unit: str


def leader_of(best: Estimate | None, trials: Sequence[MeasuredTrial], unit: str) -> Leader | None:
    """None as long as nothing has run whose probe is known.

    A probe differs from the run after it by a factor that is much the same for all settings; its
    spread over the runs so far is the probe's error.
    """
    whole = [
        (run.trial.rate, run.probe)
        for run in trials
        if run.trial.rate and run.probe and not run.trial.cut
    ]
    if best is None or not whole:
        return None
    error = _UNKNOWN_ERROR
    if len(whole) >= _MIN_RUNS:
        error = statistics.stdev(math.log(rate / probe) for rate, probe in whole)
    rate, probe = max(whole)
    return Leader(best, probe, rate, max(error, _MIN_ERROR), unit)


def early_end_check(
    settings: Settings, leader: Leader | None, first: MeasuredTrial | None, reference: Path
) -> EarlyEndCheck:
    """The check that ends a trial of these settings early. `first`: the default's trial, and
    `reference`: the folder of its runs."""
    looked: set[str] = set()

    def watch(folder: Path) -> Trial | None:
        if "scores" not in looked and (why := rejection(folder, reference)) is not None:
            looked.add("scores")
            if why:
                return Trial(settings, reason=why)
        if leader is None or first is None or first.work is None or "probe" in looked:
            return None
        probe = probe_of(folder, first.work)
        if probe is None:
            return None
        looked.add("probe")
        return cut_by_probe(settings, leader, probe)

    return watch


def cut_by_probe(settings: Settings, leader: Leader, probe: float) -> Trial | None:
    """The trial as it is ended if its probe shows that it cannot win; None if it may."""
    rate = full_rate(probe, leader.probe, leader.rate)
    if not cannot_win(rate, leader.error, leader.best, _LOOKS):
        return None
    best = math.exp(leader.best.mean)
    words = f"its probe stands for {figure_words(rate)} {leader.unit} ± {leader.error * 100:.0f}%"
    return Trial(settings, rate, leader.error, cut=f"{words}, the best have {figure_words(best)}")


def rejection(folder: Path, reference: Path) -> str | None:
    """Why the accuracy run in a results folder proves that settings lose accuracy against that of
    the default; empty if it does not, None as long as there is no such run."""
    runs = [run for run in trial_files(folder) if run.summary.run.accuracy]
    if not runs:
        return None
    verdicts = [v for run in runs for v in run.summary.verdicts if v.rule.startswith("accuracy_")]
    if missed := sorted({v.rule for v in verdicts if v.status == "failed"}):
        return f"failed {', '.join(missed)}"
    if folder == reference:
        return ""
    _, own = answer_scores(runs[0].folder)
    for run in trial_files(reference):
        figures = run.summary.run.accuracy
        _, scores = answer_scores(run.folder)
        for score in figures.scores if figures else ():
            name = score.name.lower()
            if score.is_percentage and score.low is not None and name in own and name in scores:
                # An answer that one of them could not score would shift the others.
                both = [key for key in scores[name] if key in own[name]]
                was, now = [scores[name][key] for key in both], [own[name][key] for key in both]
                if not both:
                    continue
                mean = statistics.fmean(was)
                if AccuracyCheck(_SHARE * mean, was, mean).rejects(now):
                    lost = f"{statistics.fmean(now):.4g} where the default has {mean:.4g}"
                    return f"accuracy: {score.name} {lost} on the same samples"
    return ""
