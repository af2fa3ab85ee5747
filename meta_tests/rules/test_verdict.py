"""How verdicts and reports write figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.rules.verdict import figure_words


@given(st.floats(1e-9, 1e15), st.integers(3, 6))
def test_a_figure_keeps_its_digits_and_is_no_power_of_ten(value: float, digits: int) -> None:
    words = figure_words(value, digits)
    assert "e" not in words
    assert float(words.replace(",", "")) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


def test_a_large_figure_is_whole_and_has_separators() -> None:
    assert figure_words(10_530.4) == "10,530"
    assert figure_words(12_345.6, 6) == "12,345.6"
    assert figure_words(1_183_326.85, 6) == "1,183,327"
