"""What Interactive demands beyond test_performance.py: TTFT and TPOT at p99 within limits.

Below which p99 must be, in ms:

                     TTFT   TPOT
    llama3.1-8b       500     30
    llama2-70b        450     40
    llama3.1-405b   4,500     80
    deepseek-r1     1,500     15
    gpt-oss-120b    2,000     15
"""

from mlperf_suite.rules import limits

# The latencies


def test_ttft_limit(interactive_run):
    """TTFT p99 is below 500 ms (llama3.1-8b; for others, see above)."""
    interactive_run.obeys(limits.ttft_limit)


def test_tpot_limit(interactive_run):
    """TPOT p99 is below 30 ms (llama3.1-8b; for others, see above)."""
    interactive_run.obeys(limits.tpot_limit)


def test_latency_targets(interactive_run):
    """Early stopping was decided with these limits, or tighter ones."""
    interactive_run.obeys(limits.latency_targets)


def test_target_percentile(interactive_run):
    """Latencies are judged at the 99th percentile."""
    interactive_run.obeys(limits.target_percentile)


# Length of the run


def test_early_stopping(interactive_run):
    """Early stopping was met: the run is long enough for its percentile to be trusted."""
    interactive_run.obeys(limits.early_stopping)


def test_min_queries(interactive_run):
    """At least 64 queries, the minimum of early stopping for its percentile."""
    interactive_run.obeys(limits.min_queries)
