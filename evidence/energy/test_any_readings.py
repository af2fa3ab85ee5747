"""Whatever a meter may read: joules that do not fall, or a reason."""

from __future__ import annotations

import itertools
from array import array
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.energy import Counter, Series, UnmeasuredError
from mlperf_suite.features.energy.energy_figures import joules_by, trace_of

RANGE_J = 262_143.328850
"""As Intel's packages have it."""


@given(st.data())
def test_whatever_is_read_gives_joules_or_a_reason(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.floats(allow_nan=True), max_size=30))
    gaps = data.draw(st.lists(st.floats(1e-3, 50), min_size=len(values), max_size=len(values)))
    times = list(itertools.accumulate(gaps, initial=90.0))[1:]
    gives: Literal["energy", "power"] = data.draw(st.sampled_from(["energy", "power"]))
    range_j = data.draw(st.sampled_from([None, RANGE_J]))
    counter = Counter("GPU 0", "GPU", "label", lambda: 0.0, gives=gives, range_j=range_j)
    readings = Series(counter, array("d", times), array("d", values))
    try:
        trace = trace_of(readings, 100.0, 110.0)
    except UnmeasuredError as why:
        assert str(why)
    else:
        first, last = joules_by([trace], [100.0, 110.0])
        assert last >= first


def joules(times: list[float], values: list[float], range_j: float | None = None) -> float:
    counter = Counter("GPU 0", "GPU", "label", lambda: 0.0, range_j=range_j)
    readings = Series(counter, array("d", times), array("d", values))
    first, last = joules_by([trace_of(readings, 100.0, times[-1])], [100.0, times[-1]])
    return last - first


@given(start=st.floats(0, 9_999), watts=st.lists(st.floats(1, 900), min_size=6, max_size=40))
def test_a_counter_that_begins_again_is_the_counter_that_does_not(
    start: float, watts: list[float]
) -> None:
    times = [99.0 + 2.0 * i for i in range(len(watts) + 1)]
    steady = list(itertools.accumulate((w * 2.0 for w in watts), initial=start))
    wrapped = joules(times, [value % 10_000 for value in steady], 10_000.0)
    assert wrapped == pytest.approx(joules(times, steady), rel=1e-6)
