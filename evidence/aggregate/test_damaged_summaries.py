"""Summaries with a value that is none, in every place: refused or taken by an aggregate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_tests.features.aggregate.made_nodes import ROWS, STARTED, MadeNode, make_nodes
from mlperf_suite.errors import RefusedError
from mlperf_suite.features.aggregate.aggregate import LABEL, Aggregate, aggregate_runs
from mlperf_suite.features.aggregate.aggregate_report import aggregate_sections
from mlperf_suite.reports.markdown import markdown_text

A, B = MadeNode(), MadeNode(node="node-b", rows=ROWS[:50])


def _places(content: object, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(content, dict):
        return []
    return [
        x for key, first in content.items() for x in ((*above, key), *_places(first, (*above, key)))
    ]


_ODD = [None, True, 0, -1, 1e308, 2**70, "", "x", [], [1], [None], {}, {"a": 1}, float("inf")]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    nodes = (replace(A, rows=ROWS[:20]), replace(B, rows=ROWS[:25]))
    return make_nodes(tmp_path_factory.mktemp("damaged"), *nodes)


@given(st.data())
def test_a_damaged_summary_is_refused_or_taken_and_raises_nothing(
    two_runs: list[Path], data: st.DataObject
) -> None:
    path = two_runs[1] / "summary.json"
    whole = path.read_text()
    content = json.loads(whole)
    place = data.draw(st.sampled_from(_places(content)))
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = data.draw(st.sampled_from(_ODD))
    path.write_text(json.dumps(content))
    try:
        aggregate = aggregate_runs(two_runs, STARTED)
        assert Aggregate.read(json.loads(json.dumps(aggregate.as_json()))) == aggregate
        assert LABEL in markdown_text(aggregate_sections(aggregate))
    except RefusedError as error:
        assert all(error.reasons)
    finally:
        path.write_text(whole)
