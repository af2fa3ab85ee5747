"""Figures of one series: any values have them, and a figure of others is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert, structs

from meta_tests.made_client import client_series
from mlperf_suite.features.endpoints.client_results.result_files import Distribution
from mlperf_suite.features.endpoints.rules.distribution_checks import shape_faults, whole_faults

LENGTHS = np.minimum(np.random.default_rng(1).lognormal(7.7, 1.0, 20_000).astype(int), 20_000) + 100
"""Of answers that differ much, as deepseek-r1's do."""


def series_of(values: Any) -> Distribution:
    return convert(client_series(np.asarray(values)), Distribution)


@given(st.lists(st.integers(1, 10**13), min_size=2, max_size=300))
@settings(max_examples=200, deadline=None)
def test_no_values_are_refused(values: list[int]) -> None:
    series = series_of(values)
    assert list(shape_faults(series, len(values))) == []


@pytest.mark.parametrize("share", [0.9, 1.1])
@pytest.mark.parametrize("members", [("total",), ("std_dev",), ("total", "std_dev")])
def test_another_total_or_standard_deviation_is_seen(share: float, members: list[str]) -> None:
    series = series_of(LENGTHS)
    forged = structs.replace(series, **{name: getattr(series, name) * share for name in members})
    assert list(shape_faults(forged, len(LENGTHS))) != []


def test_one_token_more_is_seen() -> None:
    series = series_of(LENGTHS[:1000])
    assert series.total is not None
    assert list(whole_faults(series, 1000)) == []
    assert list(whole_faults(structs.replace(series, total=series.total + 1), 1000)) != []


@pytest.mark.parametrize("name", ["50.0", "90.0", "99.0"])
def test_a_percentile_and_an_estimate_keep_to_their_places(name: str) -> None:
    series = series_of(LENGTHS)
    for member in ("percentiles", "early_stopping_percentiles"):
        values = getattr(series, member)
        moved = structs.replace(series, **{member: {**values, name: values[name] * 0.8}})
        assert list(shape_faults(moved, len(LENGTHS))) != []
