"""Which losses a baseline hides: the gate could not tell of them, as its runs vary so much."""

from __future__ import annotations

import math
from dataclasses import replace

from mlperf_suite.results.regression import DEFAULT_MAX_REGRESSION, METRICS, compare_summaries
from mlperf_suite.results.schema import Summary


def hidden_losses(
    baseline: Summary,
    max_regression: float = DEFAULT_MAX_REGRESSION,
    repeat: int | None = None,
) -> str:
    """The losses beyond the allowed that the gate could not see with a baseline, in words; empty if
    there are none, or if the baseline's runs were not repeated and so do not show how they vary.

    They are half the gate's own intervals, in a comparison with a run of `repeat` repeats (by
    default as many as the baseline's) that vary as the baseline's do.
    """
    run = baseline.run.performance
    if run is None or not run.repeats:
        return ""
    each = (run, *run.repeats)
    others = (each[n % len(each)] for n in range(1, repeat or len(each)))
    twin = replace(baseline.run, performance=replace(run, repeats=tuple(others)))
    of_group = {metric.name: metric.group for metric in METRICS}
    losses: dict[str, str] = {}
    for change in compare_summaries(baseline, replace(baseline, run=twin), max_regression):
        if change.metric in of_group and change.low is not None and change.high is not None:
            loss = 1 - math.sqrt((1 + change.low) / (1 + change.high))
            if loss > max_regression:
                losses.setdefault(of_group[change.metric], f"{loss:.1%} of {change.label}")
    words = f"losses below {', '.join(losses.values())} cannot be seen with this baseline"
    return f"{words}: measure it again on a quiet machine" if losses else ""
