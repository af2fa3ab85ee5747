"""The suite's own caching audit, not MLPerf's: no answer is made from an earlier one."""

from mlperf_suite.features.caching_audit import caching

# The result


def test_caching_speed(caching_run):
    """One repeated sample is at most 10% faster than new samples."""
    caching_run.obeys(caching.speed)


def test_caching_prompt_tokens(caching_run):
    """The engine reports no prompt token from a cache."""
    caching_run.obeys(caching.prompt_tokens)


# The work behind it


def test_caching_samples(caching_run):
    """Blocks of one repeated sample alternate with blocks of samples issued once."""
    caching_run.obeys(caching.samples)


def test_caching_answers(caching_run):
    """Every answer has the same length."""
    caching_run.obeys(caching.answers)


def test_caching_settings(caching_run):
    """Each block was a performance run of this scenario under the audit's settings."""
    caching_run.obeys(caching.settings)


# The logs


def test_caching_log_is_whole(caching_run):
    """The logs of every block can be read completely."""
    caching_run.obeys(caching.log_is_whole)


def test_caching_no_loadgen_errors(caching_run):
    """LoadGen logged no error, except about the audit.config that the test requires."""
    caching_run.obeys(caching.no_loadgen_errors)


def test_caching_loadgen_clock(caching_run):
    """LoadGen's clock kept time during every block."""
    caching_run.obeys(caching.loadgen_clock)
