"""Own times of operations that are nested at random."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.profiling.made_traces import event, trace_of
from mlperf_suite.features.profiling.trace import top_operations


@given(st.recursive(st.integers(1, 9), lambda deeper: st.lists(deeper, min_size=1, max_size=4)))
def test_own_times_add_up_to_the_time_of_the_outermost(
    tmp_path_factory: pytest.TempPathFactory, nested: Any
) -> None:
    events: list[dict[str, Any]] = []

    def add(nested_events: Any, start: int, depth: int) -> int:
        length = nested_events if isinstance(nested_events, int) else 0
        for inner in nested_events if isinstance(nested_events, list) else ():
            length += add(inner, start + length, depth + 1)
        events.append(event(f"depth {depth}", start, length))
        return length

    length = add(nested, 0, 0)
    path = trace_of(tmp_path_factory.mktemp("nested") / "a.pt.trace.json", *events)
    top = top_operations([path], most=1000)
    assert top.total_ms == pytest.approx(length / 1000)
    assert all(operation.self_ms > -1e-9 for operation in top.operations)
