"""Rules of a performance run's length: enough time, samples and queries to be trusted."""

from __future__ import annotations

from mlperf_suite.benchmarks.definition import MIN_DURATION_MS
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import CLOSED, ONE_BY_ONE, rule
from mlperf_suite.rules.verdict import Verdict, verdict

EARLY_STOPPING_MIN_QUERIES = 64
"""Early stopping cannot estimate a 90th or 99th percentile from fewer (MLPerf Inference rules)."""
SINGLE_STREAM_MIN_QUERIES = 1024
"""SingleStream's minimum without early stopping (MLPerf Inference rules)."""


@rule(
    "performance",
    source="submission checker, min_duration_check: TEST_DURATION_MS; mlperf.conf: min_duration",
    fix="Use --profile official, or set min_duration to 600000 in user.conf.",
    shortens=True,
)
def min_duration(run: RunFacts) -> Verdict:
    """The run is set to last at least ten minutes."""
    return _at_least(run, "effective_min_duration_ms", MIN_DURATION_MS, "ms")


@rule(
    "performance",
    source="submission checker, performance_sample_count_check; mlperf.conf: "
    "performance_sample_count_override",
    fix="Use the whole data set: --profile official, no --total-sample-count.",
    shortens=True,
)
def performance_sample_count(run: RunFacts) -> Verdict:
    """LoadGen draws from at least the benchmark's number of samples."""
    return _at_least(run, "effective_performance_sample_count", run.benchmark.samples, "samples")


@rule(
    "performance",
    source="submission checker, min_query_count_check: samples per query; mlperf.conf: "
    "Offline.min_query_count",
    fix="Raise --offline-target-qps, so that one query holds the whole data set.",
    scenarios=("Offline",),
    divisions=CLOSED,
    shortens=True,
)
def offline_samples_per_query(run: RunFacts) -> Verdict:
    """Offline's one query has at least as many samples as the data set."""
    return _at_least(run, "effective_samples_per_query", run.benchmark.samples, "samples")


@rule(
    "performance",
    demand="met",
    source="MLPerf Inference rules, Early Stopping Criterion; submission checker, latency_check",
    fix="Run longer, or lower --server-target-qps, so that enough queries are within the limits.",
    scenarios=ONE_BY_ONE,
)
def early_stopping(run: RunFacts) -> Verdict:
    """Early stopping was met: the run was long enough for its percentile to be believed."""
    if not _uses_early_stopping(run):
        return verdict(True, "not used", "met, or not used in SingleStream")
    met = run.present("early_stopping_met")
    value = ("met" if met else "not met") if isinstance(met, bool) else met
    return verdict(met is True, value, why=_early_stopping_says(run))


def _early_stopping_says(run: RunFacts) -> str:
    """LoadGen's own text on early stopping, if it was not met."""
    if run.detail["early_stopping_met"] is True:
        return ""
    keys = ("early_stopping_result", "early_stopping_ttft_result", "early_stopping_tpot_result")
    return "; ".join(str(run.detail[key]) for key in keys if run.detail[key])


def _uses_early_stopping(run: RunFacts) -> bool:
    """Whether early stopping applies: always, except in a SingleStream run whose log never mentions
    it."""
    is_logged = any(key.startswith("early_stopping_") for key in run.detail.values)
    return is_logged or run.scenario.name != "SingleStream"


@rule(
    "performance",
    source="MLPerf Inference rules, Scenarios; submission checker, min_query_count_check",
    fix="Run longer, so that LoadGen issues more queries.",
    scenarios=ONE_BY_ONE,
)
def min_queries(run: RunFacts) -> Verdict:
    """At least 64 queries with early stopping; 1,024 in SingleStream without it."""
    early = _uses_early_stopping(run)
    least = EARLY_STOPPING_MIN_QUERIES if early else SINGLE_STREAM_MIN_QUERIES
    return _at_least(run, "result_query_count", least, "queries")


def _at_least(run: RunFacts, key: str, least: float, unit: str) -> Verdict:
    demand = f"at least {least:,} {unit}"
    number = run.number(key, demand)
    return verdict(number >= least, f"{number:,} {unit}", demand)
