"""Percentiles of any times that nodes tell are those of all together."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.benchmarks.request_times import SHARES, percentile
from mlperf_suite.features.aggregate.aggregate import pooled

_TIMES = st.lists(
    st.lists(st.floats(0, 1e9, allow_nan=False), max_size=60).map(np.asarray),
    min_size=1,
    max_size=6,
)


@given(_TIMES)
def test_a_pooled_percentile_is_that_of_all_values_together(times: list[Any]) -> None:
    """In whatever order the nodes come."""
    aggregate, values = pooled(times), sorted(value for of in times for value in of)
    other_order = pooled(times[::-1])
    if not values:
        assert aggregate is None and other_order is None
        return
    assert aggregate is not None and other_order is not None
    means = [figures.pop("mean") for figures in (aggregate, other_order)]
    assert means == pytest.approx([np.mean(values)] * 2, abs=1e-6)
    percentiles = {name: percentile(values, share) for name, share in SHARES.items()}
    rounded = {name: round(value, 6) for name, value in percentiles.items()}
    assert aggregate == other_order == rounded
