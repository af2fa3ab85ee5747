"""Decides whether a run's figures may count as a result, and why not."""

from __future__ import annotations

from mlperf_suite.results.schema import Config, Meta, PerformanceFigures, Summary
from mlperf_suite.rules.verdict import in_words

STAND_IN_LABEL = "made with a stand-in engine: not a measurement of any system"
"""The mark on every output of a run with a stand-in engine."""
OFFICIAL = "official"
"""The profile that applies MLPerf's own rules; every other one shortens them."""


def label_of(meta: Meta) -> str:
    """The label on every output of a run, or a statement that it has none."""
    return in_words(meta.label) if meta.label else "not said under which rules"


def marks_of(summary: Summary, config: Config) -> tuple[str, ...]:
    """The marks that must be shown with a run's figures, valid or not: a stand-in engine, shortened
    rules, a limiting client or a profiler."""
    meta, marks = summary.meta, [summary.no_result]
    if config.engine is not None and config.engine.stand_in:
        marks.append(STAND_IN_LABEL)
    if meta.profile != OFFICIAL:
        marks.append(f"{in_words(meta.profile or 'unknown profile')}: not an MLPerf result")
    return tuple(filter(None, marks))


def why_no_result(
    summary: Summary, config: Config, performance: PerformanceFigures | None
) -> tuple[str, ...]:
    """Why a performance run is not a valid result, a few words for each reason; empty if it is one.

    `performance`: its figures, None if it has none.
    """
    meta, reasons = summary.meta, list(marks_of(summary, config))
    if meta.status not in ("complete", "invalid"):
        reasons.append(f"{in_words(meta.status)}: {in_words(meta.reason or 'it did not end')}")
    if performance is None:
        reasons.append("no performance run")
    elif not performance.valid:
        why = performance.invalid_reason
        reasons.append(f"LoadGen: INVALID{f': {in_words(why)}' if why else ''}")
    for status in ("failed", "shortened"):
        rules = dict.fromkeys(v.rule for v in summary.verdicts if v.status == status)
        if rules:
            reasons.append(f"rules {status}: {', '.join(map(in_words, rules))}")
    return tuple(reasons)


def accuracy_passed(summary: Summary) -> bool | None:
    """The accuracy rules' verdict on a run's accuracy run; None if there is none."""
    accuracy = summary.run.accuracy
    return None if accuracy is None else accuracy.passed
