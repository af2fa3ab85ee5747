"""Whatever a file of a production's trace holds, it is read or refused in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.replay.made_traces import ROW, exported, span, written
from mlperf_suite.errors import DatasetError
from mlperf_suite.features.replay.production_traces import read_trace

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=9,
)


@given(values=st.fixed_dictionaries(dict.fromkeys(ROW, ANY)), spans=ANY)
def test_any_content_is_a_trace_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any], spans: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    for content in (values, {"resourceSpans": spans}, exported(span(spans, spans, spans))):
        try:
            trace = read_trace(written(folder, json.dumps(content)))
        except DatasetError as error:
            assert "\n" not in str(error)
        else:
            assert all(r.prompt >= 1 and r.answer >= 1 and r.at_s >= 0 for r in trace.requests)
