"""Rules of the scores of an accuracy run: one for each metric that any benchmark is judged by.

They are generated from the benchmarks, so a benchmark with a new scorer needs no change here.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlperf_suite.benchmarks.definition import ExpectedScore
from mlperf_suite.benchmarks.registry import BENCHMARKS
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, Check, rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

_PERCENT = "%"


def rule_name(metric: str) -> str:
    """The name of a metric's rule: accuracy_rougel for rougeL."""
    return f"accuracy_{metric.lower()}"


def _gate_of(metric: str) -> Check:
    def check(run: RunFacts) -> Verdict:
        found = (run.scores or {}).get(metric)
        if metric in run.figures_not_judged:
            return not_judged("no figure", metric, run.figures_not_judged[metric])
        if run.scores is None and run.unscored:
            return not_judged("no figure", metric, run.unscored)
        if run.scores is None:
            return verdict(False, "no figure", metric, "nothing was scored")
        expected = run.reference.of(metric) if run.reference else None
        if expected is None:
            why = run.unreferenced or f"no reference accuracy is known for {metric}"
            shown = "no figure" if found is None else f"{found:,.10g}"
            return not_judged(shown, "a share of the reference", why)
        if found is None:
            return verdict(False, "no figure", metric, f"{metric} is not among the scores")
        return _judge_score(found, expected, strict=run.high_accuracy)

    check.__name__ = rule_name(metric)
    check.__doc__ = f"{metric} reaches its share of the reference, and is no longer than it may be."
    return check


def _judge_score(found: float, expected: ExpectedScore, *, strict: bool) -> Verdict:
    low, unit = expected.low(strict=strict), expected.unit
    if unit == _PERCENT:
        share = expected.strict_share if strict else expected.share
        return verdict(
            low <= found <= (100 if expected.high is None else expected.high),
            f"{found:.4f}",
            f"at least {low:.4f}",
            f"{share * 100:g}% of the reference {expected.value:.4f}",
        )
    digits = ",.0f" if float(expected.value).is_integer() else ",.2f"
    if expected.high is None:
        return verdict(found >= low, f"{found:{digits}} {unit}", f"at least {low:{digits}} {unit}")
    required = f"{low:{digits}} to {expected.high:{digits}} {unit}"
    return verdict(low <= found <= expected.high, f"{found:{digits}} {unit}", required)


METRICS: tuple[str, ...] = tuple(
    dict.fromkeys(name for benchmark in BENCHMARKS.values() for name in benchmark.metrics)
)
"""Every metric that a benchmark is judged by."""
GATES: Mapping[str, Check] = {
    metric: rule("accuracy", divisions=CLOSED, metric=metric)(_gate_of(metric))
    for metric in METRICS
}
"""The check of each metric."""
