"""Honest streams of real servers are told apart from answers that something held back."""

from evidence.servers.honest_streams import measured_streams
from mlperf_suite.rules.limits import held_back


def test_only_what_is_held_back_is_taken_for_it() -> None:
    """Honest answers begin with a token of their own, however many come at a time after it."""
    streams = list(measured_streams())
    assert len(streams) >= 6
    for behind, stream in streams:
        assert bool(held_back(stream)) == (not behind.honest), (behind.name, stream)
        if behind.honest:
            assert stream.first_tokens["p50"] == 1, (behind.name, stream)
