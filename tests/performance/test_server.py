"""What a Server run must fulfil: TTFT and TPOT at p99 within limits, over enough queries."""

import pytest

from mlperf_suite.rules import (
    client,
    clock,
    figures,
    latency,
    length,
    lines,
    origin,
    seeded,
    validity,
)

pytestmark = [pytest.mark.performance, pytest.mark.server]


# The result


def test_result_valid(server_run):
    """LoadGen's own verdict on the run is VALID."""
    server_run.obeys(validity.result_valid)


def test_result_reported(server_run):
    """The log has the completed tokens/s by which Server is compared."""
    server_run.obeys(validity.result_reported)


def test_accuracy_passed(server_run):
    """The accuracy run of the same system passed; without it, performance does not count."""
    server_run.obeys(validity.accuracy_passed)


def test_generation(server_run):
    """Answers are generated with the benchmark's settings, and none comes from a cache."""
    server_run.obeys(validity.generation)


def test_cached_prompt_tokens(server_run):
    """The engine reports no prompt token from a cache."""
    server_run.obeys(validity.cached_prompt_tokens)


def test_client_bound(server_run):
    """Nothing between LoadGen and a remote server limited the run."""
    server_run.obeys(client.client_bound)


# The latencies


def test_ttft_limit(server_run):
    """The time to first token at p99 is below Server's limit."""
    server_run.obeys(latency.ttft_limit)


def test_tpot_limit(server_run):
    """The time per output token at p99 is below Server's limit."""
    server_run.obeys(latency.tpot_limit)


def test_latency_targets(server_run):
    """Early stopping was decided with Server's limits, or tighter ones."""
    server_run.obeys(latency.latency_targets)


def test_target_percentile(server_run):
    """Latencies are judged at the 99th percentile."""
    server_run.obeys(latency.target_percentile)


# Length of the run


def test_min_duration(server_run):
    """The run is set to last at least ten minutes."""
    server_run.obeys(length.min_duration)


def test_performance_sample_count(server_run):
    """LoadGen draws from at least the benchmark's number of samples."""
    server_run.obeys(length.performance_sample_count)


def test_early_stopping(server_run):
    """Early stopping was met: the run is long enough for its percentile to be trusted."""
    server_run.obeys(length.early_stopping)


def test_min_queries(server_run):
    """At least 64 queries, the minimum of early stopping for its percentile."""
    server_run.obeys(length.min_queries)


# Settings of the round


def test_seeds(server_run):
    """The three random seeds are those of the round."""
    server_run.obeys(validity.seeds)


def test_test_mode(server_run):
    """The run was made in PerformanceOnly mode of this scenario."""
    server_run.obeys(validity.test_mode)


def test_equal_issue_mode(server_run):
    """Every sample is issued equally often."""
    server_run.obeys(validity.equal_issue_mode)


def test_token_latencies(server_run):
    """LoadGen counts tokens."""
    server_run.obeys(validity.token_latencies)


def test_loadgen_unmodified(server_run):
    """LoadGen was built from a release, without local changes."""
    server_run.obeys(validity.loadgen_unmodified)


# The log


def test_log_is_whole(server_run):
    """The detail log can be read from its first line to its last."""
    server_run.obeys(validity.log_is_whole)


def test_no_loadgen_errors(server_run):
    """LoadGen logged no error."""
    server_run.obeys(validity.no_loadgen_errors)


# Consistency of the log


def test_time_stamps(server_run):
    """The time stamps of each thread never go back, and one process wrote the log."""
    server_run.obeys(clock.time_stamps)


def test_time_span(server_run):
    """The time stamps span the run's duration, which is as long as requested."""
    server_run.obeys(clock.time_span)


def test_clock_dates(server_run):
    """The run's date agrees with its time stamps, and is after LoadGen was built."""
    server_run.obeys(clock.clock_dates)


def test_loaded_samples(server_run):
    """Samples are loaded in the order that follows from the seed."""
    server_run.obeys(seeded.loaded_samples)


def test_generated_queries(server_run):
    """The number of queries and their duration follow from seed, rate and requested duration."""
    server_run.obeys(seeded.generated_queries)


def test_scheduled_rate(server_run):
    """The scheduled rate of queries is the one that follows from the seed."""
    server_run.obeys(seeded.scheduled_rate)


def test_queries_issued(server_run):
    """Every generated query was issued."""
    server_run.obeys(figures.queries_issued)


def test_query_rate(server_run):
    """The reported rate is the number of queries divided by their time."""
    server_run.obeys(figures.query_rate)


def test_token_rate(server_run):
    """Tokens per second times the duration give one token count, a possible one for the answers."""
    server_run.obeys(figures.token_rate)


def test_issued_token_rate(server_run):
    """The tokens/s up to the last issue put that issue between its due time and its answer."""
    server_run.obeys(figures.issued_token_rate)


def test_percentile_order(server_run):
    """Percentiles rise from minimum to maximum."""
    server_run.obeys(figures.percentile_order)


def test_mean_in_percentiles(server_run):
    """Each mean is within the bounds that its percentiles allow."""
    server_run.obeys(figures.mean_in_percentiles)


def test_token_times(server_run):
    """The mean latency is the TTFT plus the TPOT of each further token."""
    server_run.obeys(figures.token_times)


def test_validity_agrees(server_run):
    """LoadGen's verdict follows from its constraints and their figures."""
    server_run.obeys(figures.validity_agrees)


def test_log_lines(server_run):
    """The log has every line that LoadGen writes for such a run, in order."""
    server_run.obeys(lines.log_lines)


def test_settings_took(server_run):
    """The effective settings follow from the requested ones."""
    server_run.obeys(lines.settings_took)


def test_samples_drawn(server_run):
    """Samples are drawn as in every performance run."""
    server_run.obeys(lines.samples_drawn)


def test_loadgen_files(server_run):
    """LoadGen was built from the sources of its version."""
    server_run.obeys(origin.loadgen_files)


def test_summary_agrees(server_run):
    """The summary file says what the detail log says."""
    server_run.obeys(origin.summary_agrees)


def test_tokens_as_in_accuracy(server_run):
    """Answers have as many tokens as those of the accuracy run."""
    server_run.obeys(origin.tokens_as_in_accuracy)
