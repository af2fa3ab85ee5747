"""What every run must fulfil, whatever its mode: whole logs, no errors, LoadGen unmodified."""

from mlperf_suite.rules import clock, validity


def test_log_is_whole(any_run):
    """The run's logs can be read completely."""
    any_run.obeys(validity.log_is_whole)


def test_no_loadgen_errors(any_run):
    """LoadGen logged no error, except about the audit.config that an audit requires."""
    any_run.obeys(validity.no_loadgen_errors)


def test_loadgen_unmodified(any_run):
    """LoadGen was built from a release, without local changes."""
    any_run.obeys(validity.loadgen_unmodified)


def test_test_mode(any_run):
    """The run was made in LoadGen's mode for it (AccuracyOnly, PerformanceOnly), and scenario."""
    any_run.obeys(validity.test_mode)


def test_loadgen_clock(any_run):
    """LoadGen's clock kept time during the run: nothing set it, and its rate was right."""
    any_run.obeys(clock.loadgen_clock)
