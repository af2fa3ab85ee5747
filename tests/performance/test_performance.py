"""What every performance run must fulfil, whatever its scenario."""

from mlperf_suite.rules import limits, validity

# The result


def test_result_valid(performance_run):
    """LoadGen's own verdict on the run is VALID."""
    performance_run.obeys(validity.result_valid)


def test_result_reported(performance_run):
    """The log has the figure by which the scenario is compared."""
    performance_run.obeys(validity.result_reported)


def test_accuracy_passed(performance_run):
    """The accuracy run of the same system passed; without it, performance does not count."""
    performance_run.obeys(validity.accuracy_passed)


def test_generation(performance_run):
    """Answers are generated with the benchmark's settings, and none comes from a cache."""
    performance_run.obeys(validity.generation)


def test_cached_prompt_tokens(performance_run):
    """The engine reports no prompt token from a cache."""
    performance_run.obeys(validity.cached_prompt_tokens)


def test_client_bound(performance_run):
    """Nothing between LoadGen and a remote server limited the run."""
    performance_run.obeys(limits.client_bound)


# Length of the run


def test_min_duration(performance_run):
    """The run is set to last at least ten minutes."""
    performance_run.obeys(limits.min_duration)


def test_performance_sample_count(performance_run):
    """LoadGen draws from at least the benchmark's number of samples."""
    performance_run.obeys(limits.performance_sample_count)


# Settings of the round


def test_seeds(performance_run):
    """The three random seeds are those of the round."""
    performance_run.obeys(validity.seeds)


def test_equal_issue_mode(performance_run):
    """Every sample is issued equally often."""
    performance_run.obeys(validity.equal_issue_mode)


def test_token_latencies(performance_run):
    """LoadGen counts tokens."""
    performance_run.obeys(validity.token_latencies)
