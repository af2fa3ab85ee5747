"""The parts of a request's time follow each other, whatever clocks and networks do."""

import math
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.replicas.replica_traces import trace
from mlperf_suite.features.replicas.traces import AnswerTimes, merged


@given(
    st.lists(st.tuples(*[st.floats(0, 10)] * 5, st.booleans()), max_size=20), st.floats(-1e6, 1e6)
)
def test_parts_follow_each_other_and_none_is_negative(
    requests: list[tuple[float, float, float, float, float, bool]], clock: float
) -> None:
    """Whatever clocks and networks do: each request's timestamps go up, from when it was handed
    over to when it was done."""
    answers, columns = AnswerTimes(), list[tuple[float, ...]]()
    for number, (*durations, delay, streams) in enumerate(requests):
        ends = tuple(accumulate(durations))
        first = 50.0 + delay + ends[2]
        answers.add(number, number, 50.0, first if streams else None, first + durations[3])
        columns.append(tuple(clock + end for end in ends))
    reply = trace(
        range(len(requests)), [clock] * len(requests), list(zip(*columns, strict=True)) or [()] * 4
    )
    timestamps = merged({0: (reply, 0.0)}, answers).timestamps
    assert timestamps is not None
    for row, ends in enumerate(zip(*timestamps.times_s, strict=True)):
        assert ends[0] == 50.0
        assert ends[-1] == answers.times_s[-1][row]
        assert not any(map(math.isnan, ends))
        assert all(after >= before - 1e-6 for before, after in pairwise(ends))
