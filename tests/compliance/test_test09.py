"""TEST09: the answers of a performance run are as long as the reference's."""

import pytest

from mlperf_suite.rules import lines, test09

pytestmark = pytest.mark.compliance


# The answers


def test_test09_every_sample(test09_run):
    """Each sample of the performance data set was issued and its answer logged."""
    test09_run.obeys(test09.test09_every_sample)


def test_test09_mean_tokens(test09_run):
    """The mean length of the answers is within the audit's limits."""
    test09_run.obeys(test09.test09_mean_tokens)


# The audit's settings


def test_test09_settings(test09_run):
    """Every answer is logged, and each sample is issued once."""
    test09_run.obeys(test09.test09_settings)


def test_test09_test_mode(test09_run):
    """The run was a performance run of this scenario."""
    test09_run.obeys(test09.test09_test_mode)


# The log


def test_test09_log_is_whole(test09_run):
    """The logs can be read completely."""
    test09_run.obeys(test09.test09_log_is_whole)


def test_test09_no_loadgen_errors(test09_run):
    """LoadGen logged no error, except about the audit.config that the test requires."""
    test09_run.obeys(test09.test09_no_loadgen_errors)


def test_test09_log_agrees(test09_run):
    """The detail log is consistent with itself and with the logged answers."""
    test09_run.obeys(lines.test09_log_agrees)
