"""The caching audit, the suite's own and not MLPerf's: no answer is made from an earlier one."""

import pytest

from mlperf_suite.compliance.rules import caching

pytestmark = pytest.mark.compliance


# The finding


def test_caching_speed(caching_run):
    """One sample over and over is at most 10% faster than samples never seen."""
    caching_run.obeys(caching.caching_speed)


def test_caching_prompt_tokens(caching_run):
    """The engine counts no prompt token that came from a cache."""
    caching_run.obeys(caching.caching_prompt_tokens)


# What it is based on


def test_caching_samples(caching_run):
    """One sample over and over, and each sample once, by turns."""
    caching_run.obeys(caching.caching_samples)


def test_caching_answers(caching_run):
    """Every answer has the same length."""
    caching_run.obeys(caching.caching_answers)


def test_caching_settings(caching_run):
    """Each block was a performance run of this scenario under the audit's settings."""
    caching_run.obeys(caching.caching_settings)


# Its logs


def test_caching_log_is_whole(caching_run):
    """The logs of every block can be read in whole."""
    caching_run.obeys(caching.caching_log_is_whole)


def test_caching_no_loadgen_errors(caching_run):
    """LoadGen logged no error, apart from the audit.config that the test wants."""
    caching_run.obeys(caching.caching_no_loadgen_errors)
