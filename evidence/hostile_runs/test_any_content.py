"""Summaries with any content at all: no report, comparison or reader breaks on them."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from meta_tests.reports.kept_run import KEPT_RUN
from meta_tests.reports.outputs import reports_of, terminal_text
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B_EDGE
from mlperf_suite.loadgen.logs import DetailLog
from mlperf_suite.plugin.ci_reports import metrics
from mlperf_suite.results.performance_figures import early_stopping
from mlperf_suite.results.regression import compare_summaries
from mlperf_suite.results.schema import Config, Summary

ESTIMATE = " * Early stopping 90.0th percentile estimate: {}"
KEPT = json.loads((KEPT_RUN / "summary.json").read_text())
_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


_PERFORMANCE = ("tokens_per_sec", "samples_per_sec", "ttft_ms", "repeats")


def _some_of(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, _JSON))


@given(
    _some_of("meta", "system", "run", "verdicts", "logs", "regression"),
    _some_of(*_PERFORMANCE),
)
def test_no_summary_breaks_a_report(summary: dict[str, Any], performance: dict[str, Any]) -> None:
    run = {"performance": performance, "accuracy": performance}
    read = Summary.read({"run": run} | summary)
    text, page = reports_of(read)
    assert text.startswith("# ") and page.startswith("<!doctype html>")
    assert terminal_text(read)
    for mode in ("accuracy", "performance", "test06"):
        assert all(math.isfinite(value) for value in metrics(read, mode).values())


@given(_JSON)
def test_no_summary_breaks_the_comparison(content: Any) -> None:
    summary = Summary.read({"run": {"performance": content, "accuracy": content}})
    changes = compare_summaries(summary, summary)
    assert all(change.outcome in ("unchanged", "cannot tell") for change in changes)


def _places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values within a JSON value."""
    inner: Any = ()
    if isinstance(content, dict):
        inner = content.items()
    elif isinstance(content, list):
        inner = enumerate(content)
    return [path, *(place for key, name in inner for place in _places(name, (*path, key)))]


@given(st.sampled_from(_places(KEPT)[1:]), _JSON)
def test_a_damaged_value_costs_no_more_than_itself(place: tuple[Any, ...], junk: Any) -> None:
    damaged = copy.deepcopy(KEPT)
    part = damaged
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = junk
    summary, whole = Summary.read(damaged), Summary.read(KEPT)
    for name in ("meta", "system", "run", "logs", "verdicts"):
        if name != place[0]:
            assert getattr(summary, name) == getattr(whole, name)
    if len(place) > 2 and place[:2] == ("run", "performance"):
        assert summary.run.accuracy == whole.run.accuracy
        assert summary.run.performance is not None


@given(_JSON)
def test_no_content_stops_a_reader(content: Any) -> None:
    for of in (content, dict.fromkeys([entry.name for entry in fields(Summary)], content)):
        summary = Summary.read(of)
        assert Summary.read(summary.as_json()) == summary
        Config.read(of)
    Config.read(dict.fromkeys([entry.name for entry in fields(Config)], content))


@given(st.text() | st.integers() | st.none() | st.lists(st.text()), st.integers(0, 10**40))
def test_no_words_break_it(words: Any, number: int) -> None:
    of_log = {"early_stopping_ttft_result": words, "early_stopping_met": words}
    early_stopping(LLAMA3_1_8B_EDGE.scenario("SingleStream"), DetailLog(of_log), None)
    detail = DetailLog({"early_stopping_tpot_result": ESTIMATE.format(number)})
    report = early_stopping(LLAMA3_1_8B_EDGE.scenario("SingleStream"), detail, None)
    assert report is not None
    assert report.estimates_ms["tpot"] == (number / 1e6 if number < 10**19 else None)
