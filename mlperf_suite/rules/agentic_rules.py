"""The accuracy of a curve of several turns in a package of MLPerf Endpoints.

Sources: endpoints_rules.md §3.2, §4.3 and §6.6, and the gates in agentic_targets.py of the official
checker, which it took from the reference implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from statistics import fmean

from mlperf_suite.client_results.result_files import AccuracyScore
from mlperf_suite.client_results.series import AGENTIC_TARGETS, MANDATORY, AgenticTargets
from mlperf_suite.rules.package_rules import CurveFacts, PointFacts, regions_scored
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

_package_rule = partial(rule, "package")
_INLINE, _SWE_BENCH = "performance", "swe_bench"
"""The type of the scores of a performance run, and the data set of the accuracy run."""
_MOST_NAMED = 4


@_package_rule(
    source="Endpoints rules, §3.2, §4.3, §6.6; checker: agentic-accuracy-inline, "
    "agentic-accuracy-swebench, agentic-osl-range; SWE-bench in each region, the suite's own",
    fix="Fix the accuracy of the named points, and repeat their runs.",
)
def agentic_accuracy(curve: CurveFacts) -> Verdict:
    """Of several turns: each point's inline score, the mean of SWE-bench over the four mandatory
    regions and the mean length of a turn are within the benchmark's gates.

    Scores are shares of 1. The mean length is that of the full run, which not every version of the
    client writes: without it the rule is not judged unless a score is too low.
    """
    if not curve.is_agentic:
        return verdict(True, "a benchmark of one turn", "no demand on it")
    targets = AGENTIC_TARGETS[curve.model]
    low, high = targets.tokens
    demand = (
        f"inline {targets.inline:g}, SWE-bench {targets.swe_bench:g}, {low:g} to {high:g} tokens"
    )
    faults = [*_inline_faults(curve, targets), *_swe_bench_faults(curve, targets)]
    faults += _length_faults(curve, targets)
    if faults:
        return verdict(False, "; ".join(faults[:_MOST_NAMED]), demand)
    unknown = [p.name for p in curve.points if _turn_tokens(p) is None]
    if unknown:
        why = "no output_sequence_lengths_full_run in result_summary.json"
        return not_judged(f"tokens of {', '.join(unknown[:_MOST_NAMED])}", demand, why)
    return verdict(True, f"{len(curve.points)} points", demand)


def _inline_faults(curve: CurveFacts, targets: AgenticTargets) -> Iterator[str]:
    for point in curve.points:
        scores = [s for s in _scores(point) if s.dataset_type == _INLINE]
        score = _percent(scores)
        if score is None:
            yield f"{point.name}: no inline score of 0 to 1"
        elif score < targets.inline:
            yield f"{point.name}: inline {score:.2f}"


def _swe_bench_faults(curve: CurveFacts, targets: AgenticTargets) -> Iterator[str]:
    owners = regions_scored(curve)
    scores = []
    for region in MANDATORY:
        point = owners.get(region)
        of_point = [s for s in _scores(point) if s.dataset_name == _SWE_BENCH] if point else []
        if (score := _percent(of_point)) is None:
            yield f"no SWE-bench score of 0 to 1 in {region}"
        else:
            scores.append(score)
    if scores and fmean(scores) < targets.swe_bench:
        yield f"SWE-bench {fmean(scores):.2f} over {len(scores)} regions"


def _length_faults(curve: CurveFacts, targets: AgenticTargets) -> Iterator[str]:
    low, high = targets.tokens
    for point in curve.points:
        tokens = _turn_tokens(point)
        if tokens is not None and not low <= tokens <= high:
            yield f"{point.name}: {tokens:,.1f} tokens a turn"


def _turn_tokens(point: PointFacts) -> float | None:
    """The mean length of all turns of a point's run."""
    run = point.client.summary
    full_run = run.output_sequence_lengths_full_run if run else None
    return full_run.output_sequence_lengths.avg if full_run else None


def _scores(point: PointFacts) -> Iterable[AccuracyScore]:
    return point.client.accuracy.accuracy_scores if point.client.accuracy else ()


def _percent(scores: list[AccuracyScore]) -> float | None:
    """One score in percent; None if there are none or several, or it is no share of 1."""
    value = scores[0].score if len(scores) == 1 else None
    is_share = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return 100.0 * float(value) if is_share and isinstance(value, int | float) else None
