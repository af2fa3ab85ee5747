"""TEST07: a performance run answers as accurately as an accuracy run must."""

import pytest

from mlperf_suite.rules import lines, test07

pytestmark = pytest.mark.compliance


# The answers


def test_test07_every_sample(test07_run):
    """Each sample of the audit's data set was issued and its answer logged."""
    test07_run.obeys(test07.test07_every_sample)


def test_test07_score(test07_run):
    """The answers score at least what the audit asks for."""
    test07_run.obeys(test07.test07_score)


# The audit's settings


def test_test07_settings(test07_run):
    """Every answer is logged, and each sample is issued once."""
    test07_run.obeys(test07.test07_settings)


def test_test07_test_mode(test07_run):
    """The run was a performance run of this scenario."""
    test07_run.obeys(test07.test07_test_mode)


# The log


def test_test07_log_is_whole(test07_run):
    """The logs can be read completely."""
    test07_run.obeys(test07.test07_log_is_whole)


def test_test07_no_loadgen_errors(test07_run):
    """LoadGen logged no error, except about the audit.config that the test requires."""
    test07_run.obeys(test07.test07_no_loadgen_errors)


def test_test07_log_agrees(test07_run):
    """The detail log is consistent with itself and with the logged answers."""
    test07_run.obeys(lines.test07_log_agrees)
