"""Whatever a summary says of MMLU, its report has it or leaves it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlperf_suite.features.mmlu.report import mmlu_sections
from mlperf_suite.reports.html import html_page
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.results.schema import Summary

_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
_FIGURES = ("accuracy", "questions", "planned", "tokens", "latency_ms", "by_domain", "resumed")


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("meta", "system", "logs"), _JSON)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(_FIGURES, _JSON)),
)
def test_no_summary_breaks_its_report(summary: dict[str, Any], mmlu: dict[str, Any]) -> None:
    sections = mmlu_sections(Summary.read({"run": {"mmlu": mmlu}} | summary), Path("x"))
    assert markdown_text(sections).startswith("# MMLU: ")
    assert html_page(sections).startswith("<!doctype html>")
