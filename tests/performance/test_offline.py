"""What an Offline run must fulfil: one query with every sample, ten minutes, tokens/s."""

import pytest

from mlperf_suite.rules import (
    client,
    clock,
    figures,
    length,
    lines,
    origin,
    seeded,
    validity,
)

pytestmark = [pytest.mark.performance, pytest.mark.offline]


# The result


def test_result_valid(offline_run):
    """LoadGen's own verdict on the run is VALID."""
    offline_run.obeys(validity.result_valid)


def test_result_reported(offline_run):
    """The log has the tokens/s by which Offline is compared."""
    offline_run.obeys(validity.result_reported)


def test_accuracy_passed(offline_run):
    """The accuracy run of the same system passed; without it, performance does not count."""
    offline_run.obeys(validity.accuracy_passed)


def test_generation(offline_run):
    """Answers are generated with the benchmark's settings, and none comes from a cache."""
    offline_run.obeys(validity.generation)


def test_cached_prompt_tokens(offline_run):
    """The engine reports no prompt token from a cache."""
    offline_run.obeys(validity.cached_prompt_tokens)


def test_client_bound(offline_run):
    """Nothing between LoadGen and a remote server limited the run."""
    offline_run.obeys(client.client_bound)


# Length of the run


def test_min_duration(offline_run):
    """The run is set to last at least ten minutes."""
    offline_run.obeys(length.min_duration)


def test_performance_sample_count(offline_run):
    """LoadGen draws from at least the benchmark's number of samples."""
    offline_run.obeys(length.performance_sample_count)


def test_offline_samples_per_query(offline_run):
    """The one query has at least as many samples as the data set."""
    offline_run.obeys(length.offline_samples_per_query)


# Settings of the round


def test_seeds(offline_run):
    """The three random seeds are those of the round."""
    offline_run.obeys(validity.seeds)


def test_test_mode(offline_run):
    """The run was made in PerformanceOnly mode of this scenario."""
    offline_run.obeys(validity.test_mode)


def test_equal_issue_mode(offline_run):
    """Every sample is issued equally often."""
    offline_run.obeys(validity.equal_issue_mode)


def test_token_latencies(offline_run):
    """LoadGen counts tokens."""
    offline_run.obeys(validity.token_latencies)


def test_loadgen_unmodified(offline_run):
    """LoadGen was built from a release, without local changes."""
    offline_run.obeys(validity.loadgen_unmodified)


# The log


def test_log_is_whole(offline_run):
    """The detail log can be read from its first line to its last."""
    offline_run.obeys(validity.log_is_whole)


def test_no_loadgen_errors(offline_run):
    """LoadGen logged no error."""
    offline_run.obeys(validity.no_loadgen_errors)


# Consistency of the log


def test_time_stamps(offline_run):
    """The time stamps of each thread never go back, and one process wrote the log."""
    offline_run.obeys(clock.time_stamps)


def test_time_span(offline_run):
    """The time stamps span the run's duration, which is as long as requested."""
    offline_run.obeys(clock.time_span)


def test_clock_dates(offline_run):
    """The run's date agrees with its time stamps, and is after LoadGen was built."""
    offline_run.obeys(clock.clock_dates)


def test_loaded_samples(offline_run):
    """Samples are loaded in the order that follows from the seed."""
    offline_run.obeys(seeded.loaded_samples)


def test_generated_queries(offline_run):
    """The number of queries and their duration follow from seed, rate and requested duration."""
    offline_run.obeys(seeded.generated_queries)


def test_queries_issued(offline_run):
    """Every generated query was issued."""
    offline_run.obeys(figures.queries_issued)


def test_query_rate(offline_run):
    """The reported rate is the number of queries divided by their time."""
    offline_run.obeys(figures.query_rate)


def test_token_rate(offline_run):
    """Tokens per second times the duration give one token count, a possible one for the answers."""
    offline_run.obeys(figures.token_rate)


def test_percentile_order(offline_run):
    """Percentiles rise from minimum to maximum."""
    offline_run.obeys(figures.percentile_order)


def test_mean_in_percentiles(offline_run):
    """Each mean is within the bounds that its percentiles allow."""
    offline_run.obeys(figures.mean_in_percentiles)


def test_validity_agrees(offline_run):
    """LoadGen's verdict follows from its constraints and their figures."""
    offline_run.obeys(figures.validity_agrees)


def test_log_lines(offline_run):
    """The log has every line that LoadGen writes for such a run, in order."""
    offline_run.obeys(lines.log_lines)


def test_settings_took(offline_run):
    """The effective settings follow from the requested ones."""
    offline_run.obeys(lines.settings_took)


def test_samples_drawn(offline_run):
    """Samples are drawn as in every performance run."""
    offline_run.obeys(lines.samples_drawn)


def test_loadgen_files(offline_run):
    """LoadGen was built from the sources of its version."""
    offline_run.obeys(origin.loadgen_files)


def test_summary_agrees(offline_run):
    """The summary file says what the detail log says."""
    offline_run.obeys(origin.summary_agrees)


def test_tokens_as_in_accuracy(offline_run):
    """Answers have as many tokens as those of the accuracy run."""
    offline_run.obeys(origin.tokens_as_in_accuracy)
