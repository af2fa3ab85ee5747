"""Whatever a meter may read: joules that do not fall, or a reason."""

from __future__ import annotations

import itertools
from array import array
from typing import Literal

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
