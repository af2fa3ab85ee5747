"""Rules of a performance run's length: enough time, samples and queries to be trusted."""

from __future__ import annotations

from mlperf_suite.benchmarks.definition import MIN_DURATION_MS
from mlperf_suite.rules import checks
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, ONE_BY_ONE, rule
from mlperf_suite.rules.verdict import Verdict, verdict

EARLY_STOPPING_MIN_QUERIES = 64
"""Early stopping cannot estimate a 90th or 99th percentile from fewer (MLPerf Inference rules)."""
SINGLE_STREAM_MIN_QUERIES = 1024
"""SingleStream's minimum without early stopping (MLPerf Inference rules)."""


@rule("performance", shortens=True)
def min_duration(run: RunFacts) -> Verdict:
    """The run is set to last at least ten minutes."""
    return checks.at_least(run, "effective_min_duration_ms", MIN_DURATION_MS, "ms")


@rule("performance", shortens=True)
def performance_sample_count(run: RunFacts) -> Verdict:
    """LoadGen draws from at least the benchmark's number of samples."""
    return checks.at_least(
        run, "effective_performance_sample_count", run.benchmark.samples, "samples"
    )


@rule("performance", ("Offline",), divisions=CLOSED, shortens=True)
def offline_samples_per_query(run: RunFacts) -> Verdict:
    """Offline's one query has at least as many samples as the data set."""
    return checks.at_least(run, "effective_samples_per_query", run.benchmark.samples, "samples")


@rule("performance", ONE_BY_ONE)
def early_stopping(run: RunFacts) -> Verdict:
    """Early stopping was met: the run was long enough for its percentile to be believed."""
    if not _uses_early_stopping(run):
        return verdict(True, "not used", "met, or not used in SingleStream")
    found = run.logs.detail["early_stopping_met"]
    if found is None:
        return checks.missing("early_stopping_met", "met")
    shown = ("met" if found else "not met") if isinstance(found, bool) else found
    return verdict(found is True, shown, "met", _early_stopping_says(run))


def _early_stopping_says(run: RunFacts) -> str:
    """LoadGen's own text on early stopping, if it was not met."""
    if run.logs.detail["early_stopping_met"] is True:
        return ""
    keys = ("early_stopping_result", "early_stopping_ttft_result", "early_stopping_tpot_result")
    return "; ".join(str(run.logs.detail[key]) for key in keys if run.logs.detail[key])


def _uses_early_stopping(run: RunFacts) -> bool:
    """Whether early stopping applies: always, except in a SingleStream run whose log never mentions
    it."""
    spoken = any(key.startswith("early_stopping_") for key in run.logs.detail.values)
    return spoken or run.scenario.name != "SingleStream"


@rule("performance", ONE_BY_ONE)
def min_queries(run: RunFacts) -> Verdict:
    """At least 64 queries with early stopping; 1,024 in SingleStream without it."""
    early = _uses_early_stopping(run)
    required = EARLY_STOPPING_MIN_QUERIES if early else SINGLE_STREAM_MIN_QUERIES
    return checks.at_least(run, "result_query_count", required, "queries")
