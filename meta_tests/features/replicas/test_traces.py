"""One trace of what several replicas tell, in this process's times."""

from collections.abc import Sequence

import pytest

from meta_tests.features.replicas.replica_traces import trace
from mlperf_suite.engines.protocol import DECODE, NETWORK, PREFILL, QUEUE
from mlperf_suite.features.replicas.traces import HELD, AnswerTimes, ClockOffsets, merged


@pytest.mark.parametrize(
    ("first", "last", "own", "ends"),
    [
        # 0.1 s front end, 0.2 queued, 0.3 prefill, 1.9 decode: before its prefill, which ended with
        # the first token, 0.4 s were the network's or front end.
        (101.0, 103.0, (0.1, 0.3, 0.6, 2.5), (100.0, 100.5, 100.7, 101.0, 103.0)),
        # Where no first token was wanted, the end counts.
        (None, 103.0, (0.1, 0.3, 0.6, 2.5), (100.0, 100.6, 100.8, 101.1, 103.0)),
        # More than there was, since its own clock runs faster: no part begins before the request
        # was handed over.
        (100.5, 100.6, (0.1, 0.3, 0.7, 0.8), (100.0, 100.1, 100.3, 100.5, 100.6)),
    ],
)
def test_a_request_s_parts_are_its_replica_s_durations_and_the_rest_is_the_network_s(
    first: float | None, last: float, own: Sequence[float], ends: Sequence[float]
) -> None:
    answers = AnswerTimes()
    answers.add(7, 70, handed=100.0, first=first, last=last)
    # By a clock that is elsewhere.
    reply = trace([7], [5000.0], [[5000.0 + end] for end in own])
    timestamps = merged({0: (reply, 12.0)}, answers).timestamps
    assert timestamps is not None
    assert timestamps.parts == (HELD, NETWORK, QUEUE, PREFILL, DECODE)
    assert (list(timestamps.tags), list(timestamps.preempted)) == ([70], [2])
    assert [column[0] for column in timestamps.times_s] == pytest.approx(ends)


def test_steps_are_in_order_of_time_and_carry_their_replica_s_number() -> None:
    reply = {0: (trace(ended_s=[10.0, 12.0]), 0.0), 3: (trace(ended_s=[1.0, 2.0]), 10.0)}
    steps = merged(reply, AnswerTimes()).steps
    assert list(steps.ended_s) == [10.0, 11.0, 12.0, 12.0]
    assert list(steps.replica) == [0, 3, 0, 3]
    assert list(steps.tokens) == [0, 0, 1, 1]
    assert not steps.running


def test_the_most_exact_offset_counts_until_clocks_have_drifted_apart() -> None:
    offsets = ClockOffsets([False, True])
    offsets.learn(0, 10.0, 3.0, 10.002)
    assert offsets.of(0) == pytest.approx(7.001)
    # A slower answer is less exact.
    offsets.learn(0, 11.0, 4.1, 11.1)
    assert offsets.of(0) == pytest.approx(7.001)
    # After an hour it is more exact than what was known then.
    offsets.learn(0, 3611.0, 3604.1, 3611.1)
    assert offsets.of(0) == pytest.approx(6.95)
    offsets.learn(1, 10.0, 3.0, 10.002)
    assert offsets.of(1) == 0.0
