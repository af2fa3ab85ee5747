"""Replicas of any speeds end together, in a simulation of them."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.routing import Router


def ends(tokens: list[int], speeds: list[float], batch: int) -> list[float]:
    """When each of simulated replicas ends, where a request takes its tokens ÷ the replica's speed
    and each works on `batch` of them at once. Longest first, as the SUT hands them over."""
    router = Router([batch] * len(speeds), speeds=speeds)
    backlog = sorted(tokens, reverse=True)
    queues: list[list[int]] = [[] for _ in speeds]
    running = [0] * len(speeds)
    ends_s = [0.0] * len(speeds)
    events: list[tuple[float, int, int]] = []

    def hand_out(now: float) -> None:
        while backlog and (place := router.take(backlog[0], len(backlog))) is not None:
            queues[place].append(backlog.pop(0))
        for place, queue in enumerate(queues):
            while queue and running[place] < batch:
                weight = queue.pop(0)
                running[place] += 1
                heapq.heappush(events, (now + weight / speeds[place], place, weight))

    hand_out(0.0)
    while events:
        now, place, weight = heapq.heappop(events)
        ends_s[place] = now
        running[place] -= 1
        router.give_back(place, weight)
        hand_out(now)
    assert not backlog
    return ends_s


@given(
    st.lists(st.integers(1, 1000), min_size=60, max_size=300),
    st.lists(st.sampled_from([1.0, 1.5, 3.0]), min_size=2, max_size=5),
    st.integers(1, 8),
)
def test_replicas_end_together(tokens: list[int], speeds: list[float], batch: int) -> None:
    """To within a request or two on the slowest: no better is to be had of requests that cannot be
    cut, while one may wait where it was given when many were left."""
    place = ends(tokens, speeds, batch)
    assert max(place) - min(place) <= 2.0001 * max(tokens) / min(speeds)
