"""TEST06: the tokens reported to LoadGen are those of the answer, under the audit's settings."""

import pytest

from mlperf_suite.rules import lines, test06

pytestmark = pytest.mark.compliance


# The answers


def test_test06_first_token(test06_run):
    """The first token reported is the first token of the answer."""
    test06_run.obeys(test06.test06_first_token)


def test_test06_eos(test06_run):
    """An answer ends with at most one of the model's own EOS tokens."""
    test06_run.obeys(test06.test06_eos)


def test_test06_token_count(test06_run):
    """The number of tokens reported is the length of the answer."""
    test06_run.obeys(test06.test06_token_count)


def test_test06_sample_count(test06_run):
    """The log has as many answers as the audit asks for."""
    test06_run.obeys(test06.test06_sample_count)


def test_test06_issue_order(test06_run):
    """Each logged answer belongs to the sample that the seeds put in its place; none is missing."""
    test06_run.obeys(test06.test06_issue_order)


# The audit's settings


def test_test06_settings(test06_run):
    """100 samples logged, no minimum duration, equal issue off."""
    test06_run.obeys(test06.test06_settings)


def test_test06_test_mode(test06_run):
    """The run was a performance run of this scenario."""
    test06_run.obeys(test06.test06_test_mode)


# The log


def test_test06_log_is_whole(test06_run):
    """The logs can be read completely."""
    test06_run.obeys(test06.test06_log_is_whole)


def test_test06_no_loadgen_errors(test06_run):
    """LoadGen logged no error, except about the audit.config that the test requires."""
    test06_run.obeys(test06.test06_no_loadgen_errors)


def test_test06_log_agrees(test06_run):
    """The detail log is consistent with itself and with the logged answers."""
    test06_run.obeys(lines.test06_log_agrees)
