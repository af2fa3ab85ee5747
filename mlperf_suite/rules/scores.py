"""Rules of the scores of an accuracy run: one for each metric that any benchmark is judged by.

They are generated from the benchmarks, so a benchmark with a new scorer needs no change here.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import ExpectedScore
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, Check, rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

_PERCENT = "%"


def gate_name(metric: str) -> str:
    """The name of a metric's rule: accuracy_rougel for rougeL."""
    return f"accuracy_{metric.lower()}"


def _gate_of(metric: str) -> Check[RunFacts]:
    def check(run: RunFacts) -> Verdict:
        score = (run.scores or {}).get(metric)
        if metric in run.figures_not_judged:
            return not_judged("no figure", metric, run.figures_not_judged[metric])
        if run.scores is None and run.unscored:
            return not_judged("no figure", metric, run.unscored)
        if run.scores is None:
            return verdict(False, "no figure", metric, "nothing was scored")
        gate = run.reference.of(metric) if run.reference else None
        if gate is None:
            why = run.unreferenced or f"no reference accuracy is known for {metric}"
            figure = "no figure" if score is None else f"{score:,.10g}"
            return not_judged(figure, "a share of the reference", why)
        if score is None:
            return verdict(False, "no figure", metric, f"{metric} is not among the scores")
        return _judge_score(score, gate, strict=run.high_accuracy)

    check.__name__ = metric.lower()
    check.__doc__ = f"{metric} reaches its share of the reference, and is no longer than it may be."
    return check


def _judge_score(score: float, gate: ExpectedScore, *, strict: bool) -> Verdict:
    low, unit = gate.low(strict=strict), gate.unit
    if unit == _PERCENT:
        share = gate.strict_share if strict else gate.share
        return verdict(
            low <= score <= (100 if gate.high is None else gate.high),
            f"{score:.4f}",
            f"at least {low:.4f}",
            f"{share * 100:g}% of the reference {gate.value:.4f}",
        )
    digits = ",.0f" if float(gate.value).is_integer() else ",.2f"
    if gate.high is None:
        return verdict(score >= low, f"{score:{digits}} {unit}", f"at least {low:{digits}} {unit}")
    demand = f"{low:{digits}} to {gate.high:{digits}} {unit}"
    return verdict(low <= score <= gate.high, f"{score:{digits}} {unit}", demand)


METRICS: tuple[str, ...] = tuple(
    dict.fromkeys(name for benchmark in BENCHMARKS.values() for name in benchmark.metrics)
)
"""Every metric that a benchmark is judged by."""
GATES: Mapping[str, Check[RunFacts]] = {
    metric: rule(
        "accuracy",
        source="submission checker, accuracy_result_check; accuracy-target and "
        "accuracy-upper-limit in MODEL_CONFIG",
        fix="Check precision, chat template and generation settings against the reference.",
        divisions=CLOSED,
        metric=metric,
    )(_gate_of(metric))
    for metric in METRICS
}
"""The check of each metric."""
