"""What an accuracy run must fulfil in every scenario: all samples answered, scores at the gates."""

import pytest

from mlperf_suite.rules import accuracy, clock, lines, origin, scores, seeded

pytestmark = pytest.mark.accuracy


# The answers


def test_accuracy_every_sample(accuracy_run):
    """Every sample that LoadGen has was answered."""
    accuracy_run.obeys(accuracy.accuracy_every_sample)


def test_accuracy_whole_dataset(accuracy_run):
    """The run takes the benchmark's whole data set."""
    accuracy_run.obeys(accuracy.accuracy_whole_dataset)


def test_accuracy_generation(accuracy_run):
    """Answers are generated with the benchmark's settings, and none comes from a cache."""
    accuracy_run.obeys(accuracy.accuracy_generation)


# The scores


def test_score(accuracy_run, metric):
    """Each accuracy metric of the benchmark reaches its share of the reference accuracy."""
    accuracy_run.obeys(scores.rule_name(metric))


# The log


def test_accuracy_log_is_whole(accuracy_run):
    """The detail log and the accuracy log can be read completely."""
    accuracy_run.obeys(accuracy.accuracy_log_is_whole)


def test_accuracy_no_loadgen_errors(accuracy_run):
    """LoadGen logged no error."""
    accuracy_run.obeys(accuracy.accuracy_no_loadgen_errors)


def test_accuracy_test_mode(accuracy_run):
    """The run was made in AccuracyOnly mode of this scenario."""
    accuracy_run.obeys(accuracy.accuracy_test_mode)


def test_accuracy_loadgen_unmodified(accuracy_run):
    """LoadGen was built from a release, without local changes."""
    accuracy_run.obeys(accuracy.accuracy_loadgen_unmodified)


# Consistency of the log


def test_accuracy_time_stamps(accuracy_run):
    """The time stamps of each thread never go back, and one process wrote the log."""
    accuracy_run.obeys(clock.accuracy_time_stamps)


def test_accuracy_time_span(accuracy_run):
    """The time stamps span the run's duration."""
    accuracy_run.obeys(clock.accuracy_time_span)


def test_accuracy_clock_dates(accuracy_run):
    """The run's date agrees with its time stamps, and is after LoadGen was built."""
    accuracy_run.obeys(clock.accuracy_clock_dates)


def test_accuracy_loaded_samples(accuracy_run):
    """Samples are loaded in the order that follows from the seed."""
    accuracy_run.obeys(seeded.accuracy_loaded_samples)


def test_accuracy_generated_queries(accuracy_run):
    """The number of queries and their duration follow from the seed and the rate."""
    accuracy_run.obeys(seeded.accuracy_generated_queries)


def test_accuracy_issue_order(accuracy_run):
    """Each logged answer belongs to the sample that the seed puts in its place in the order."""
    accuracy_run.obeys(seeded.accuracy_issue_order)


def test_accuracy_log_lines(accuracy_run):
    """The log has every line that LoadGen writes for such a run, in order."""
    accuracy_run.obeys(lines.accuracy_log_lines)


def test_accuracy_settings_took(accuracy_run):
    """The effective settings follow from the requested ones."""
    accuracy_run.obeys(lines.accuracy_settings_took)


def test_accuracy_samples_drawn(accuracy_run):
    """Every sample is issued, and none is issued again and again."""
    accuracy_run.obeys(lines.accuracy_samples_drawn)


def test_accuracy_loadgen_files(accuracy_run):
    """LoadGen was built from the sources of its version."""
    accuracy_run.obeys(origin.accuracy_loadgen_files)
