"""What a SingleStream run must fulfil: one query after another, latency at p90."""

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

pytestmark = [pytest.mark.performance, pytest.mark.singlestream]


# The result


def test_result_valid(singlestream_run):
    """LoadGen's own verdict on the run is VALID."""
    singlestream_run.obeys(validity.result_valid)


def test_result_reported(singlestream_run):
    """The log has the 90th percentile of the latency."""
    singlestream_run.obeys(validity.result_reported)


def test_accuracy_passed(singlestream_run):
    """The accuracy run of the same system passed; without it, performance does not count."""
    singlestream_run.obeys(validity.accuracy_passed)


def test_generation(singlestream_run):
    """Answers are generated with the benchmark's settings, and none comes from a cache."""
    singlestream_run.obeys(validity.generation)


def test_cached_prompt_tokens(singlestream_run):
    """The engine reports no prompt token from a cache."""
    singlestream_run.obeys(validity.cached_prompt_tokens)


def test_client_bound(singlestream_run):
    """Nothing between LoadGen and a remote server limited the run."""
    singlestream_run.obeys(client.client_bound)


# The latencies


def test_target_percentile(singlestream_run):
    """The latency is judged at the 90th percentile."""
    singlestream_run.obeys(latency.target_percentile)


# Length of the run


def test_min_duration(singlestream_run):
    """The run is set to last at least ten minutes."""
    singlestream_run.obeys(length.min_duration)


def test_performance_sample_count(singlestream_run):
    """LoadGen draws from at least the benchmark's number of samples."""
    singlestream_run.obeys(length.performance_sample_count)


def test_early_stopping(singlestream_run):
    """Early stopping was met: the run is long enough for its percentile to be trusted."""
    singlestream_run.obeys(length.early_stopping)


def test_min_queries(singlestream_run):
    """At least 64 queries with early stopping, 1,024 without it."""
    singlestream_run.obeys(length.min_queries)


# Settings of the round


def test_seeds(singlestream_run):
    """The three random seeds are those of the round."""
    singlestream_run.obeys(validity.seeds)


def test_test_mode(singlestream_run):
    """The run was made in PerformanceOnly mode of this scenario."""
    singlestream_run.obeys(validity.test_mode)


def test_equal_issue_mode(singlestream_run):
    """Every sample is issued equally often."""
    singlestream_run.obeys(validity.equal_issue_mode)


def test_token_latencies(singlestream_run):
    """LoadGen counts tokens."""
    singlestream_run.obeys(validity.token_latencies)


def test_loadgen_unmodified(singlestream_run):
    """LoadGen was built from a release, without local changes."""
    singlestream_run.obeys(validity.loadgen_unmodified)


# The log


def test_log_is_whole(singlestream_run):
    """The detail log can be read from its first line to its last."""
    singlestream_run.obeys(validity.log_is_whole)


def test_no_loadgen_errors(singlestream_run):
    """LoadGen logged no error."""
    singlestream_run.obeys(validity.no_loadgen_errors)


# Consistency of the log


def test_time_stamps(singlestream_run):
    """The time stamps of each thread never go back, and one process wrote the log."""
    singlestream_run.obeys(clock.time_stamps)


def test_time_span(singlestream_run):
    """The time stamps span the run's duration, which is as long as requested."""
    singlestream_run.obeys(clock.time_span)


def test_clock_dates(singlestream_run):
    """The run's date agrees with its time stamps, and is after LoadGen was built."""
    singlestream_run.obeys(clock.clock_dates)


def test_loaded_samples(singlestream_run):
    """Samples are loaded in the order that follows from the seed."""
    singlestream_run.obeys(seeded.loaded_samples)


def test_generated_queries(singlestream_run):
    """The number of queries and their duration follow from seed, rate and requested duration."""
    singlestream_run.obeys(seeded.generated_queries)


def test_queries_issued(singlestream_run):
    """No more queries were issued than generated."""
    singlestream_run.obeys(figures.queries_issued)


def test_query_rate(singlestream_run):
    """The reported rate is the number of queries divided by their time."""
    singlestream_run.obeys(figures.query_rate)


def test_token_rate(singlestream_run):
    """Tokens per second times the duration give one token count, a possible one for the answers."""
    singlestream_run.obeys(figures.token_rate)


def test_percentile_order(singlestream_run):
    """Percentiles rise from minimum to maximum."""
    singlestream_run.obeys(figures.percentile_order)


def test_mean_in_percentiles(singlestream_run):
    """Each mean is within the bounds that its percentiles allow."""
    singlestream_run.obeys(figures.mean_in_percentiles)


def test_token_times(singlestream_run):
    """The mean latency is the TTFT plus the TPOT of each further token."""
    singlestream_run.obeys(figures.token_times)


def test_validity_agrees(singlestream_run):
    """LoadGen's verdict follows from its constraints and their figures."""
    singlestream_run.obeys(figures.validity_agrees)


def test_log_lines(singlestream_run):
    """The log has every line that LoadGen writes for such a run, in order."""
    singlestream_run.obeys(lines.log_lines)


def test_settings_took(singlestream_run):
    """The effective settings follow from the requested ones."""
    singlestream_run.obeys(lines.settings_took)


def test_samples_drawn(singlestream_run):
    """Samples are drawn as in every performance run."""
    singlestream_run.obeys(lines.samples_drawn)


def test_loadgen_files(singlestream_run):
    """LoadGen was built from the sources of its version."""
    singlestream_run.obeys(origin.loadgen_files)


def test_summary_agrees(singlestream_run):
    """The summary file says what the detail log says."""
    singlestream_run.obeys(origin.summary_agrees)


def test_tokens_as_in_accuracy(singlestream_run):
    """Answers have as many tokens as those of the accuracy run."""
    singlestream_run.obeys(origin.tokens_as_in_accuracy)
