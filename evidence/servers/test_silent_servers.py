"""A queue at a server is never taken for one that lost a request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.features.servers.http_requests import WaitingRequests

SILENCE_S = 25.0


def forgotten(queue: WaitingRequests, sent_s: float, now: float) -> bool:
    return queue.has_forgotten(sent_s, now - sent_s, SILENCE_S)


@given(
    st.integers(1, 400),
    st.integers(1, 64),
    st.floats(0.01, 60.0),
    st.floats(0.0, 60.0),
    st.floats(0.0, 500.0),
)
def test_a_queue_is_never_taken_for_a_server_that_forgets(
    requests: int, at_once: int, takes_s: float, every_s: float, later_s: float
) -> None:
    """All at once, or one after the other faster than they are answered: in turn, however slow."""
    queue = WaitingRequests()
    sent_s = [number * every_s * takes_s / 60 / at_once for number in range(requests)]
    free_at = [0.0] * at_once
    came = []
    for message in sent_s:
        free_at.sort()
        free_at[0] = max(free_at[0], message) + takes_s
        came.append(free_at[0])
    for number, (message, then) in enumerate(zip(sent_s, came, strict=True)):
        # Just before its first token, and at some time before.
        for now in (then, max(message, then - later_s)):
            assert not forgotten(queue, message, now), number
        queue.came(message, then)


@given(st.lists(st.floats(1.0, 2.5), min_size=2, max_size=8), st.integers(1, 60))
def test_engines_that_share_what_came_at_once_may_be_unequally_fast(
    speeds: list[float], batch: int
) -> None:
    """Several engines behind one address, each with a queue of its own."""
    queue = WaitingRequests()
    for now, number in sorted(
        (speed * 5.0 * (turn + 1), turn * len(speeds) + engine)
        for engine, speed in enumerate(speeds)
        for turn in range(batch)
    ):
        assert not forgotten(queue, number / 1000, now)
        queue.came(number / 1000, now)
