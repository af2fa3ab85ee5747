"""Traces of any operations, read in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.profiling.made_traces import event, trace_of
from mlperf_suite.features.profiling import trace as trace_module
from mlperf_suite.features.profiling.trace import top_operations


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 50)), max_size=30),
    st.integers(1, 400),
    st.sampled_from([None, 1]),
)
def test_every_event_is_read_once_however_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, int]],
    chunk: int,
    indent: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    one_by_one, at = [], 0
    for name, length in events:
        one_by_one.append(event(name, at, length, args={"shape": "[1, 2]", "text": '],"{'}))
        at += length
    path = trace_of(folder / "a.pt.trace.json", *one_by_one, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_module, "_CHUNK", chunk)
        top = top_operations([path])
    totals = {
        name: (sum(n == name for n, _ in events), sum(t for n, t in events if n == name) / 1000)
        for name in dict(events)
    }
    found = {of.name: (of.calls, round(of.self_ms, 6)) for of in top.operations}
    assert found == totals and not top.damaged
