"""Whether a run's figures may stand as a result, and why not where they may not."""

from __future__ import annotations

from mlperf_suite.compliance.verdict import in_words
from mlperf_suite.results.schema import Config, Meta, PerformanceFigures, Summary

STAND_IN_LABEL = "made with a stand-in engine: not a measurement of any system"
"""What stands on every output of a run on a stand-in engine."""
OFFICIAL = "official"
"""The profile that applies MLPerf's own rules; every other shortens them."""


def label_of(meta: Meta) -> str:
    """What stands on every output of a run; of a run that does not say it, that it does not."""
    return in_words(meta.label) if meta.label else "not said under which rules"


def marks_of(summary: Summary, config: Config) -> tuple[str, ...]:
    """What a reader must see beside a run's figures wherever they stand, valid or not: that they
    are of a stand-in engine, of shortened rules, or of a client or a profiler."""
    meta, marks = summary.meta, [summary.no_result]
    if config.engine is not None and config.engine.stand_in:
        marks.append(STAND_IN_LABEL)
    if meta.profile != OFFICIAL:
        marks.append(f"{in_words(meta.profile or 'unknown profile')}: not an MLPerf result")
    return tuple(filter(None, marks))


def why_no_result(
    summary: Summary, config: Config, performance: PerformanceFigures | None
) -> tuple[str, ...]:
    """Why a performance run is no valid result, a few words for each reason; empty where it is one.

    `performance`: its figures, None where it has none.
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
    """What the accuracy rules say of a run's accuracy run; None where there is none."""
    accuracy = summary.run.accuracy
    return None if accuracy is None else accuracy.passed
