"""The simulation of one driver in front of many replicas, and the driver whose costs it takes."""

from __future__ import annotations

import contextlib
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_tests.conftest import ROOT
from perf.driver_costs import ByHeap, Costs, LinkedEngine, by_search
from perf.driver_limit import (
    B200,
    H100,
    INSTANT,
    MEASURED,
    REPLICAS,
    SOON,
    Service,
    _Simulation,
    fitted,
    highest_rate,
    offline_rate,
    searching,
    simulate,
)
from perf.server_overhead import served

COSTS = Costs(
    issue=200e-6,
    offline_issue=20e-6,
    route=10e-6,
    route_each=1e-6,
    send=50e-6,
    send_more=10e-6,
    receive=60e-6,
    receive_more=40e-6,
    tell=30e-6,
    first=50e-6,
    done=70e-6,
    done_list=110e-6,
)
FREE = Costs(**{field.name: 0.0 for field in fields(Costs)})
SHORT = Service("short", 50.0, (0.01,) * 8, (0.0001,) * 8, 0.002)


def test_a_driver_that_costs_nothing_adds_nothing() -> None:
    one = simulate(8, SHORT, FREE, seconds=3, warm_s=1)
    assert (one.added_p50_ms, one.added_p99_ms, one.busy) == (0, 0, 0)
    assert one.answered == pytest.approx(one.asked, rel=0.1) and one.held


def test_a_driver_without_a_queue_adds_what_its_parts_take() -> None:
    one = simulate(1, replace(SHORT, rate=1.0), COSTS, rate=2.0, seconds=60, warm_s=1)
    alone = COSTS.issue + COSTS.route + COSTS.send + COSTS.receive + COSTS.tell + COSTS.first
    assert one.added_p50_ms == pytest.approx(alone * 1e3, rel=1e-6)


@settings(max_examples=20)
@given(st.integers(1, 40), st.floats(0.1, 4.0), st.integers(0, 99))
def test_each_query_is_answered_once_and_the_driver_works_as_long_as_it_costs(
    replicas: int, load: float, seed: int
) -> None:
    run = _Simulation(replicas, SHORT, COSTS, load / COSTS.query, 0.05, seed)
    run.run(1e9)
    count = len(run.due)
    assert run.issued == len(run.told) == count
    assert run.told == sorted(run.told)
    assert all(late > 0 for late in run.added)
    least = count * (COSTS.issue + COSTS.route + COSTS.send + COSTS.first + COSTS.done)
    assert least - 1e-9 <= run.busy <= count * COSTS.query + 1e-9
    assert run.busy <= run.now + 1e-9


@settings(max_examples=20)
@given(st.integers(1, 20), st.integers(0, 99))
def test_no_more_is_answered_than_asked_or_than_the_driver_can(load: int, seed: int) -> None:
    asked = load * 0.25 / COSTS.query
    one = simulate(8, SHORT, COSTS, rate=asked, seconds=0.5, warm_s=0.2, seed=seed)
    batched = COSTS.issue + COSTS.route + COSTS.send + COSTS.first + COSTS.done
    assert one.answered <= 1.05 / batched
    # What it began before the end may last beyond it.
    assert one.busy <= 1.05


def test_a_rate_beyond_the_driver_is_not_held() -> None:
    within = simulate(8, SHORT, COSTS, rate=0.5 / COSTS.query, seconds=1, warm_s=0.3)
    beyond = simulate(8, SHORT, COSTS, rate=2.0 / COSTS.query, seconds=1, warm_s=0.3)
    assert within.held and not beyond.held
    assert beyond.added_p99_ms > within.added_p99_ms
    rate = highest_rate(8, INSTANT, COSTS)
    assert 0.7 / COSTS.query < rate < 1.6 / COSTS.query


def test_what_the_driver_does_for_a_query_decides_its_limit() -> None:
    rate = highest_rate(64, SOON, COSTS)
    dear = replace(COSTS, issue=4 * COSTS.issue, done=4 * COSTS.done)
    assert highest_rate(64, SOON, dear) < 0.7 * rate
    assert highest_rate(64, SOON, searching(COSTS, 512)) < 0.7 * rate
    waits = replace(COSTS, handover=200e-6)
    slowed = highest_rate(64, SOON, waits)
    assert slowed < 0.8 * rate
    assert highest_rate(64, SOON, replace(COSTS, tell=10 * COSTS.tell)) < 0.9 * rate


def test_the_handover_is_that_with_which_the_rate_is_just_held() -> None:
    costs = replace(COSTS, handover=150e-6)
    rate = highest_rate(8, INSTANT, costs)
    assert fitted(COSTS, rate, 8).handover == pytest.approx(costs.handover, rel=0.25)


def test_offline_costs_the_driver_less_than_server() -> None:
    assert offline_rate(COSTS) > 1 / COSTS.query


@given(st.integers(1, 9), st.lists(st.tuples(st.booleans(), st.integers(1, 500)), max_size=80))
def test_a_heap_finds_what_a_search_does(replicas: int, turns: list[tuple[bool, int]]) -> None:
    heap, waiting = ByHeap(replicas), []
    for gives, tokens in turns:
        if gives and waiting:
            heap.give(*waiting.pop(tokens % len(waiting)))
            continue
        least = min(heap.outstanding)
        assert heap.outstanding[by_search(heap.outstanding, tokens)] == least
        before = list(heap.outstanding)
        place = heap.take(tokens)
        assert before[place] == least
        assert heap.outstanding[place] == least + tokens
        waiting.append((place, tokens))


def test_the_driver_whose_costs_are_taken_answers_loadgen() -> None:
    with contextlib.closing(LinkedEngine(3)) as engine:
        detail = served(engine, 300, 300)
    assert detail["result_validity"] is not None
    assert detail.number("result_completed_samples_per_sec") == pytest.approx(300, rel=0.5)


def test_the_page_has_the_costs_that_are_simulated_and_the_picture() -> None:
    text = (ROOT / "docs" / "driver-limit.md").read_text()
    for field in fields(Costs):
        assert f"| {getattr(MEASURED, field.name) * 1e6:.2f} |" in text, field.name
    for scheme in ("light", "dark"):
        assert f"pictures/driver-limit-{scheme}.png" in text
        assert (ROOT / "docs/pictures" / f"driver-limit-{scheme}.png").stat().st_size < 60_000
    for service in (H100, B200):
        for count in REPLICAS:
            assert f"| {service.name} | {count} | {service.rate * count:,.0f} |" in text
