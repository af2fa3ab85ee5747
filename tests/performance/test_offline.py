"""What Offline demands beyond test_performance.py: one query with every sample, tokens/s."""

from mlperf_suite.rules import limits


def test_offline_samples_per_query(offline_run):
    """The one query has at least as many samples as the data set: 13,368 of llama3.1-8b."""
    offline_run.obeys(limits.offline_samples_per_query)
