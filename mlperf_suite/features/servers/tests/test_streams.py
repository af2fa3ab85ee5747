"""What only the client of a remote server sees: whether its answers arrived as they were made."""

from mlperf_suite.features.servers import stream_rules


def test_streamed_answers(performance_run):
    """TPOT is below its limit also without the tokens that came with the first one."""
    performance_run.obeys(stream_rules.streamed_answers)


def test_repeated_samples(performance_run):
    """No sample's later answers come from memory."""
    performance_run.obeys(stream_rules.repeated_samples)
