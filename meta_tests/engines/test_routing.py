"""Which replica a request goes to, and that all end together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.engines.protocol import EngineDescription
from mlperf_suite.engines.routing import Router

changes = st.lists(
    st.tuples(st.sampled_from(["take", "give", "end"]), st.integers(0, 9), st.integers(1, 50)),
    max_size=120,
)


@given(changes, st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_the_one_with_the_fewest_outstanding_tokens_is_found_whatever_came_before(
    changes_: list[tuple[str, int, int]], batches: list[int]
) -> None:
    """Also once there are far more changes than replicas; a look at each replica says the same."""
    router = Router(batches)
    out: list[tuple[int, int]] = []
    for kind, row, tokens in changes_ * 3:
        if kind == "take":
            before = list(router.tokens)
            with_room = [n for n, most in enumerate(batches) if router.requests[n] < most]
            if row > 7:
                with_room = [n for n in range(len(batches)) if router.has_room(n, spared=True)]
            place = router.take(tokens, 10_000 if row > 7 else 1)
            assert (place is None) == (not with_room)
            if place is not None:
                assert before[place] == min(before[n] for n in with_room)
                out.append((place, tokens))
        elif kind == "give":
            router.give(row % len(batches), tokens)
            out.append((row % len(batches), tokens))
        elif out:
            router.give_back(*out.pop(row % len(out)))


def test_what_is_kept_of_the_past_is_bounded_however_many_requests_end_in_a_row() -> None:
    """Else each answer of Offline costs more the more were given out before it."""
    router = Router([2000] * 8)
    places = [router.take(100) for _ in range(16_000)]
    for replica in places:
        assert replica is not None
        router.give_back(replica, 100)
        heap_sizes = [len(heap) for heap in (router._order._working, router._order._sparing)]
        assert max(heap_sizes) <= 80


def test_an_idle_system_does_not_always_begin_with_the_same_replica() -> None:
    router = Router([8] * 3)
    order = []
    for _ in range(6):
        place = router.take(10)
        assert place is not None
        order.append(place)
        router.give_back(place, 10)
    assert order == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("router", "tokens", "places"),
    [
        (Router([8, 8]), (1000, 100, 100, 100), [0, 1, 1, 1]),
        (Router([2, 1], "round-robin"), (1000, 10, 10, 10), [0, 1, 0, None]),
        (Router([9, 9], speeds=[2.0, 1.0]), (100,) * 6, [0, 1, 0, 0, 1, 0]),
    ],
    ids=["fewest tokens", "in turn", "one is twice as fast"],
)
def test_a_replica_takes_what_it_can_do(
    router: Router, tokens: tuple[int, ...], places: list[int | None]
) -> None:
    assert [router.take(weight) for weight in tokens] == places


def test_where_few_wait_none_waits_behind_others() -> None:
    router = Router([1, 1], speeds=[1.0, 10.0])
    assert [router.take(10, queue_length) for queue_length in (3, 2, 1)] == [1, 0, None]


@pytest.mark.parametrize(
    ("settings", "at_once"),
    [
        ({"max_num_seqs": 8}, 8),
        ({"max_num_seqs": 8, "data_parallel_size": 4}, 32),
        ({"max_num_seqs": 0}, None),
        ({"max_num_seqs": None}, None),
        ({}, None),
    ],
)
def test_the_requests_that_an_engine_works_on_at_once_are_its_own_limit(
    settings: dict[str, object], at_once: int | None
) -> None:
    assert EngineDescription("vLLM", "1", "model", False, 2048, settings).at_once == at_once
