"""What an Interactive run must fulfil: as Server, with tighter limits on TTFT and TPOT."""

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

pytestmark = [pytest.mark.performance, pytest.mark.interactive]


# The result


def test_result_valid(interactive_run):
    """LoadGen's own verdict on the run is VALID."""
    interactive_run.obeys(validity.result_valid)


def test_result_reported(interactive_run):
    """The log has the completed tokens/s by which Interactive is compared."""
    interactive_run.obeys(validity.result_reported)


def test_accuracy_passed(interactive_run):
    """The accuracy run of the same system passed; without it, performance does not count."""
    interactive_run.obeys(validity.accuracy_passed)


def test_generation(interactive_run):
    """Answers are generated with the benchmark's settings, and none comes from a cache."""
    interactive_run.obeys(validity.generation)


def test_cached_prompt_tokens(interactive_run):
    """The engine reports no prompt token from a cache."""
    interactive_run.obeys(validity.cached_prompt_tokens)


def test_client_bound(interactive_run):
    """Nothing between LoadGen and a remote server limited the run."""
    interactive_run.obeys(client.client_bound)


# The latencies


def test_ttft_limit(interactive_run):
    """The time to first token at p99 is below Interactive's limit."""
    interactive_run.obeys(latency.ttft_limit)


def test_tpot_limit(interactive_run):
    """The time per output token at p99 is below Interactive's limit."""
    interactive_run.obeys(latency.tpot_limit)


def test_latency_targets(interactive_run):
    """Early stopping was decided with Interactive's limits, or tighter ones."""
    interactive_run.obeys(latency.latency_targets)


def test_target_percentile(interactive_run):
    """Latencies are judged at the 99th percentile."""
    interactive_run.obeys(latency.target_percentile)


# Length of the run


def test_min_duration(interactive_run):
    """The run is set to last at least ten minutes."""
    interactive_run.obeys(length.min_duration)


def test_performance_sample_count(interactive_run):
    """LoadGen draws from at least the benchmark's number of samples."""
    interactive_run.obeys(length.performance_sample_count)


def test_early_stopping(interactive_run):
    """Early stopping was met: the run is long enough for its percentile to be trusted."""
    interactive_run.obeys(length.early_stopping)


def test_min_queries(interactive_run):
    """At least 64 queries, the minimum of early stopping for its percentile."""
    interactive_run.obeys(length.min_queries)


# Settings of the round


def test_seeds(interactive_run):
    """The three random seeds are those of the round."""
    interactive_run.obeys(validity.seeds)


def test_test_mode(interactive_run):
    """The run was made in PerformanceOnly mode of this scenario."""
    interactive_run.obeys(validity.test_mode)


def test_equal_issue_mode(interactive_run):
    """Every sample is issued equally often."""
    interactive_run.obeys(validity.equal_issue_mode)


def test_token_latencies(interactive_run):
    """LoadGen counts tokens."""
    interactive_run.obeys(validity.token_latencies)


def test_loadgen_unmodified(interactive_run):
    """LoadGen was built from a release, without local changes."""
    interactive_run.obeys(validity.loadgen_unmodified)


# The log


def test_log_is_whole(interactive_run):
    """The detail log can be read from its first line to its last."""
    interactive_run.obeys(validity.log_is_whole)


def test_no_loadgen_errors(interactive_run):
    """LoadGen logged no error."""
    interactive_run.obeys(validity.no_loadgen_errors)


# Consistency of the log


def test_time_stamps(interactive_run):
    """The time stamps of each thread never go back, and one process wrote the log."""
    interactive_run.obeys(clock.time_stamps)


def test_time_span(interactive_run):
    """The time stamps span the run's duration, which is as long as requested."""
    interactive_run.obeys(clock.time_span)


def test_clock_dates(interactive_run):
    """The run's date agrees with its time stamps, and is after LoadGen was built."""
    interactive_run.obeys(clock.clock_dates)


def test_loaded_samples(interactive_run):
    """Samples are loaded in the order that follows from the seed."""
    interactive_run.obeys(seeded.loaded_samples)


def test_generated_queries(interactive_run):
    """The number of queries and their duration follow from seed, rate and requested duration."""
    interactive_run.obeys(seeded.generated_queries)


def test_scheduled_rate(interactive_run):
    """The scheduled rate of queries is the one that follows from the seed."""
    interactive_run.obeys(seeded.scheduled_rate)


def test_queries_issued(interactive_run):
    """Every generated query was issued."""
    interactive_run.obeys(figures.queries_issued)


def test_query_rate(interactive_run):
    """The reported rate is the number of queries divided by their time."""
    interactive_run.obeys(figures.query_rate)


def test_token_rate(interactive_run):
    """Tokens per second times the duration give one token count, a possible one for the answers."""
    interactive_run.obeys(figures.token_rate)


def test_issued_token_rate(interactive_run):
    """The tokens/s up to the last issue put that issue between its due time and its answer."""
    interactive_run.obeys(figures.issued_token_rate)


def test_percentile_order(interactive_run):
    """Percentiles rise from minimum to maximum."""
    interactive_run.obeys(figures.percentile_order)


def test_mean_in_percentiles(interactive_run):
    """Each mean is within the bounds that its percentiles allow."""
    interactive_run.obeys(figures.mean_in_percentiles)


def test_token_times(interactive_run):
    """The mean latency is the TTFT plus the TPOT of each further token."""
    interactive_run.obeys(figures.token_times)


def test_validity_agrees(interactive_run):
    """LoadGen's verdict follows from its constraints and their figures."""
    interactive_run.obeys(figures.validity_agrees)


def test_log_lines(interactive_run):
    """The log has every line that LoadGen writes for such a run, in order."""
    interactive_run.obeys(lines.log_lines)


def test_settings_took(interactive_run):
    """The effective settings follow from the requested ones."""
    interactive_run.obeys(lines.settings_took)


def test_samples_drawn(interactive_run):
    """Samples are drawn as in every performance run."""
    interactive_run.obeys(lines.samples_drawn)


def test_loadgen_files(interactive_run):
    """LoadGen was built from the sources of its version."""
    interactive_run.obeys(origin.loadgen_files)


def test_summary_agrees(interactive_run):
    """The summary file says what the detail log says."""
    interactive_run.obeys(origin.summary_agrees)


def test_tokens_as_in_accuracy(interactive_run):
    """Answers have as many tokens as those of the accuracy run."""
    interactive_run.obeys(origin.tokens_as_in_accuracy)
