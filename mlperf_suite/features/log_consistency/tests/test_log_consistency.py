"""What a run's log must agree on: with itself, with its seeds and with LoadGen's releases."""

from mlperf_suite.features.log_consistency import (
    audit_logs,
    loadgen_verdict,
    log_clock,
    log_figures,
    provenance,
    seeded,
)


def test_log_lines(any_run):
    """The log has every line that LoadGen writes for such a run, in order."""
    any_run.obeys(provenance.log_lines)


def test_loadgen_files(any_run):
    """LoadGen was built from the sources of its version."""
    any_run.obeys(provenance.loadgen_files)


def test_summary_agrees(any_run):
    """The summary file says what the detail log says."""
    any_run.obeys(provenance.summary_agrees)


# Settings


def test_settings_took(any_run):
    """The effective settings follow from the requested ones."""
    any_run.obeys(provenance.settings_took)


# Time


def test_time_stamps(any_run):
    """The timestamps of each thread never go back, and one process wrote the log."""
    any_run.obeys(log_clock.time_stamps)


def test_time_span(any_run):
    """The timestamps span the run's duration, which is as long as requested."""
    any_run.obeys(log_clock.time_span)


def test_clock_dates(any_run):
    """The run's date agrees with its timestamps, and is after LoadGen was built."""
    any_run.obeys(log_clock.clock_dates)


# Samples and queries


def test_loaded_samples(any_run):
    """Samples are loaded in the order that follows from the seed."""
    any_run.obeys(seeded.loaded_samples)


def test_samples_drawn(any_run):
    """Samples are drawn as LoadGen draws them in every run of this mode."""
    any_run.obeys(provenance.samples_drawn)


def test_generated_queries(any_run):
    """The number of queries and their duration follow from seed, rate and requested duration."""
    any_run.obeys(seeded.generated_queries)


def test_scheduled_rate(any_run):
    """The scheduled rate of queries is the one that follows from the seed."""
    any_run.obeys(seeded.scheduled_rate)


def test_queries_issued(any_run):
    """Every generated query was issued; in SingleStream, no more than were generated."""
    any_run.obeys(log_figures.queries_issued)


def test_accuracy_issue_order(accuracy_run):
    """Each logged answer belongs to the sample that the seed puts in its place in the order."""
    accuracy_run.obeys(seeded.issue_order)


# Figures


def test_query_rate(any_run):
    """The reported rate is the number of queries divided by their time."""
    any_run.obeys(log_figures.query_rate)


def test_token_rate(any_run):
    """Tokens per second times the duration give one token count, a possible one for the answers."""
    any_run.obeys(log_figures.token_rate)


def test_issued_token_rate(any_run):
    """The tokens/s up to the last issue put that issue between its due time and its answer."""
    any_run.obeys(log_figures.issued_token_rate)


def test_percentile_order(any_run):
    """Percentiles rise from minimum to maximum."""
    any_run.obeys(log_figures.percentile_order)


def test_mean_in_percentiles(any_run):
    """Each mean is within the bounds that its percentiles allow."""
    any_run.obeys(log_figures.mean_in_percentiles)


def test_token_times(any_run):
    """The mean latency is the TTFT plus the TPOT of each further token."""
    any_run.obeys(log_figures.token_times)


def test_validity_agrees(any_run):
    """LoadGen's verdict follows from its constraints and their figures."""
    any_run.obeys(loadgen_verdict.validity_agrees)


def test_tokens_as_in_accuracy(any_run):
    """Answers have as many tokens as those of the accuracy run."""
    any_run.obeys(provenance.tokens_as_in_accuracy)


# Audits


def test_log_agrees(audit_run):
    """The detail log is consistent with itself and with the logged answers."""
    audit_run.obeys(audit_logs.log_agrees)


def test_test06_issue_order(test06_run):
    """Each logged answer belongs to the sample that the seeds put in its place; none is missing."""
    test06_run.obeys(audit_logs.issue_order)
