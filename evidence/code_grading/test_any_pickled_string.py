"""Private tests of LiveCodeBench: any bytes are a pickled text, or are refused."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.features.code_grading.scorers.live_code_bench import pickled_string


@given(st.text(max_size=300), st.integers(2, 5))
def test_a_pickled_string_is_read(text: str, protocol: int) -> None:
    assert pickled_string(pickle.dumps(text, protocol)) == text


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        text = pickled_string(data)
    except ValueError:
        return
    assert pickle.loads(data) == text


@given(st.text(max_size=20), st.integers(2, 5), st.data())
def test_a_pickle_that_was_cut_is_refused(text: str, protocol: int, data: st.DataObject) -> None:
    whole = pickle.dumps(text, protocol)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match=r"pickle|utf-8"):
        pickled_string(whole[:end])
