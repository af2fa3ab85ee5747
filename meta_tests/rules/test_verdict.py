"""How verdicts and reports write figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.rules.verdict import figure_words, lasted_words


@given(st.floats(1e-9, 1e15), st.integers(3, 6))
def test_a_figure_keeps_its_digits_and_is_no_power_of_ten(value: float, digits: int) -> None:
    words = figure_words(value, digits)
    assert "e" not in words
    assert float(words.replace(",", "")) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@given(st.floats(0, 1e6))
def test_what_is_too_short_is_not_said_to_be_long_enough(seconds: float) -> None:
    words = float(lasted_words(seconds).removesuffix(" s").replace(",", ""))
    assert seconds - 0.1 - 1e-6 < words <= seconds + 1e-9
