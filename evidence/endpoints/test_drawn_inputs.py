"""Drawn inputs of the readers of the client's events: prompts, salts, regions and super-passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert

from meta_tests.features.endpoints.made_inputs import (
    SIZE,
    SYSTEM,
    Salt,
    hexadecimal,
    marker,
    messages,
    passes_of,
    salted,
    salts,
    sent,
    streams,
)
from meta_tests.features.endpoints.made_official_client import client_series
from mlperf_suite.features.endpoints.official_client_results.result_files import Distribution
from mlperf_suite.features.endpoints.official_client_results.series import (
    MANDATORY,
    MIN_PASSES,
    Regions,
)
from mlperf_suite.features.endpoints.official_client_results.steady_state import steady_state
from mlperf_suite.features.endpoints.official_client_results.super_passes import super_pass_size
from mlperf_suite.features.endpoints.rules.distribution_checks import shape_faults

BOUNDS = st.tuples(st.integers(33, 200_000), st.integers(1, 32))


@settings(max_examples=25)
@given(
    st.integers(1, 300),
    st.sampled_from([64, 128, 256]),
    st.integers(0, 99),
    st.sampled_from(["", "Be brief.\n\n"]),
)
def test_drawn_salts_are_accepted_in_each_form(
    count: int, bits: int, seed: int, system: str
) -> None:
    drawn = salts(count, bits, seed)
    texts = [f"{system}[{salt}] question {n % 7}" for n, salt in enumerate(drawn)]
    in_user = [messages(system, f"[{salt}] question {n % 7}") for n, salt in enumerate(drawn)]
    in_system = [messages(f"{system}[salt: {s}]", f"question {n % 7}") for n, s in enumerate(drawn)]
    for prompts in (texts, in_user, in_system):
        counted = sent(prompts)
        assert (counted.readable, counted.salted) == (count, count)
        assert list(counted.faults) == []
        assert counted.least_bits == bits


@settings(max_examples=40)
@given(st.text())
def test_a_text_of_the_data_set_is_no_fault(text: str) -> None:
    counted = sent([text, text])
    assert counted.readable == 2
    assert list(counted.faults) == [] or counted.salted


@settings(max_examples=20)
@given(st.integers(2, 5), st.sampled_from([hexadecimal, marker]), st.integers(0, 99), st.booleans())
def test_drawn_salts_of_token_ids_have_no_fault(
    passes: int, make: Salt, seed: int, bare: bool
) -> None:
    counted = salted(passes, make, 30, [] if bare else SYSTEM, seed)
    assert counted.is_salted is True
    assert list(counted.faults) == []


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=40), max_size=40))
def test_any_streams_are_judged(prompts: list[list[int]]) -> None:
    counted = streams(prompts)
    assert counted.count == len(prompts)
    assert all(words.isprintable() for words in counted.faults)


@given(BOUNDS)
def test_regions_follow_each_other_up_to_c_max(bounds: tuple[int, int]) -> None:
    c_max, c_min = bounds
    regions = Regions.of(c_max, c_min)
    assert c_min < regions.low <= regions.medium <= c_max < regions.margin


@given(BOUNDS, st.integers(1, 300_000), st.booleans())
def test_a_point_is_in_one_region_of_concurrency_at_most(
    bounds: tuple[int, int], concurrency: int, declared: bool
) -> None:
    c_max, c_min = bounds
    regions = Regions.of(c_max, c_min, c_min_declared=declared)
    names = list(regions.of_point(concurrency))
    assert set(names) <= set(MANDATORY)
    assert bool(names) == (concurrency <= c_max)
    assert len(names) <= (1 if declared or concurrency > 32 else 2)
    assert ("ultra-low" in names) == (concurrency <= (c_min if declared else 32))


@given(
    st.lists(st.floats(5, 50), min_size=1, max_size=20),
    st.floats(0.1, 10),
    st.integers(0, 99),
)
def test_the_unit_of_time_changes_nothing(levels_ms: list[float], factor: float, seed: int) -> None:
    first = steady_state(passes_of(levels_ms, 0.03, seed), SIZE, SIZE, 1200.0)
    scaled = passes_of([factor * level for level in levels_ms], 0.03, seed)
    assert steady_state(scaled, SIZE, SIZE, 1200.0).status == first.status
    if first.window.passes is not None:
        assert first.window.passes >= MIN_PASSES
        assert first.window.super_pass_end is not None
        assert first.window.super_pass_end < len(levels_ms)


@given(st.integers(1, 500), st.integers(1, 2000))
def test_a_super_pass_is_whole_passes_that_hold_the_requests_under_way(
    samples: int, concurrency: int
) -> None:
    size = super_pass_size(samples, concurrency)
    assert size % samples == 0
    assert size - samples < concurrency <= size


def series_of(values: Any) -> Distribution:
    return convert(client_series(np.asarray(values)), Distribution)


@given(st.lists(st.integers(1, 10**13), min_size=2, max_size=300))
@settings(max_examples=200, deadline=None)
def test_no_values_are_refused(values: list[int]) -> None:
    series = series_of(values)
    assert list(shape_faults(series, len(values))) == []
