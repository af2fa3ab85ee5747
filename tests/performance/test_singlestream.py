"""What SingleStream demands beyond test_performance.py: one query after another, latency at p90."""

from mlperf_suite.rules import limits


def test_target_percentile(singlestream_run):
    """The latency is judged at the 90th percentile."""
    singlestream_run.obeys(limits.target_percentile)


def test_early_stopping(singlestream_run):
    """Early stopping was met: the run is long enough for its percentile to be trusted."""
    singlestream_run.obeys(limits.early_stopping)


def test_min_queries(singlestream_run):
    """At least 64 queries with early stopping, 1,024 without it."""
    singlestream_run.obeys(limits.min_queries)
