"""What Server demands beyond test_performance.py: TTFT and TPOT, or the latency, within limits.

Below which p99 must be, in ms:

                     TTFT   TPOT
    llama3.1-8b     2,000    100
    llama2-70b      2,000    200
    mixtral-8x7b    2,000    200
    llama3.1-405b   6,000    175
    deepseek-r1     2,000     80
    gpt-oss-120b    3,000     80

qwen3-vl-235b-a22b (v6.0) counts no tokens: the latency of a whole answer is below 12,000 ms.
"""

from mlperf_suite.rules import limits

# The latencies


def test_ttft_limit(server_run):
    """TTFT p99 is below 2,000 ms (llama3.1-8b; for others, see above)."""
    server_run.obeys(limits.ttft_limit)


def test_tpot_limit(server_run):
    """TPOT p99 is below 100 ms (llama3.1-8b; for others, see above)."""
    server_run.obeys(limits.tpot_limit)


def test_latency_limit(server_run):
    """The latency p99 is below 12 s where LoadGen counts no tokens."""
    server_run.obeys(limits.latency_limit)


def test_latency_targets(server_run):
    """Early stopping was decided with these limits, or tighter ones."""
    server_run.obeys(limits.latency_targets)


def test_target_percentile(server_run):
    """Latencies are judged at the 99th percentile."""
    server_run.obeys(limits.target_percentile)


# Length of the run


def test_early_stopping(server_run):
    """Early stopping was met: the run is long enough for its percentile to be trusted."""
    server_run.obeys(limits.early_stopping)


def test_min_queries(server_run):
    """At least 64 queries, the minimum of early stopping for its percentile."""
    server_run.obeys(limits.min_queries)
