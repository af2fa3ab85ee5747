"""summary.json's schema: what is written is read again, and nothing that a file may hold
stops a reader."""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from meta_tests.suite_runs import ROOT, run_python
from mlperf_suite.results.schema import (
    SCHEMA_VERSION,
    Config,
    Meta,
    Summary,
    figures_of_features,
)
from mlperf_suite.rules.verdict import Status, Verdict

KEPT = json.loads((Path(__file__).parent.parent / "data/kept_run/summary.json").read_text())
FORMAT = Draft202012Validator(json.loads((ROOT / "docs" / "summary.schema.json").read_text()))
_LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
_SIMPLE = {
    str: st.text(max_size=5),
    bool: st.booleans(),
    int: st.integers(-(10**30), 10**30),
    float: st.floats(-1e30, 1e30),
    Any: _LEAF,
}


def _values(hint: Any) -> st.SearchStrategy[Any]:
    """Every value that a field of this type may have."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([st.none() if hint is type(None) else _values(hint) for hint in arguments])
    if origin is tuple:
        return st.lists(_values(arguments[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), _values(arguments[1]), max_size=2)
    if origin is Literal:
        return st.sampled_from(arguments)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        values = {entry.name: _values(hints[entry.name]) for entry in fields(hint)}
        if hint is Summary:
            kinds = {name: _values(kind) for name, kind in figures_of_features().items()}
            values["parts"] = st.fixed_dictionaries({}, optional=kinds)
        return st.builds(cast(type, hint), **values)
    return _SIMPLE[hint]


@given(_values(Summary))
def test_every_field_that_is_written_is_read_again(summary: Summary) -> None:
    newest = replace(summary, schema_version=SCHEMA_VERSION)
    content = json.loads(json.dumps(newest.as_json()))
    names = ["schema_version", "verdict", "counts", *(entry.name for entry in fields(Summary))]
    names += figures_of_features()
    assert set(content) <= set(names) and content["counts"].keys() == set(get_args(Status))
    assert Summary.read(content) == newest
    FORMAT.validate(content)


def test_the_names_that_users_read_stay() -> None:
    """Every name of a run that was kept stays where it was."""
    content = json.loads(json.dumps(Summary.read(KEPT).as_json()))
    assert content == KEPT
    accuracy = content["run"]["accuracy"]
    assert accuracy["rouge"]["rouge1"] == 39.3402
    assert isinstance(accuracy["run_gen_len"], int)


# What is not as it should be


def test_a_figure_is_a_finite_number_or_none() -> None:
    """Any content at all is in evidence/hostile_runs."""
    contents: list[Any] = [None, [], 3, {"run": [1], "meta": 3, "verdicts": {}, "logs": [[]]}]
    for junk in contents:
        assert Summary.read(junk) == Summary.read({})
        assert Config.read(junk) == Config.read({})
    for found, value in (
        *((junk, None) for junk in (float("nan"), 10**400, True, "114.3")),
        (114, 114.0),
    ):
        figures = Summary.read({"run": {"performance": {"tokens_per_sec": found}}}).run.performance
        assert figures is not None
        assert figures.tokens_per_sec == value


def test_a_rules_word_is_never_lost() -> None:
    content = {"verdicts": [{"rule": "seeds", "status": "sideways", "found": 7}, {}, 3]}
    assert Summary.read(content).verdicts == (
        Verdict("seeds", "not judged", "7", ""),
        Verdict("", "not judged", "", ""),
    )


def test_reading_a_summary_loads_nothing_heavy() -> None:
    """Collection reads summaries, and must stay instant."""
    code = (
        "import sys, mlperf_suite.results.schema;"
        "print([m for m in ('numpy', 'torch', 'transformers', 'jinja2') if m in sys.modules])"
    )
    process = run_python("-c", code)
    assert process.stdout == "[]\n", process.stderr


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (None, "8 x NVIDIA H100 80GB HBM3"),
        ({"NVIDIA H100 80GB HBM3": 1}, "NVIDIA H100 80GB HBM3"),
        ({"NVIDIA B200": 32}, "32 x NVIDIA B200"),
        ({}, "EPYC, 192 cores"),
    ],
)
def test_what_was_measured_is_what_computed(used: dict[str, int] | None, words: str) -> None:
    """A machine may have more GPUs than the engine was given, or none where the driver is."""
    system = {"gpus": ["NVIDIA H100 80GB HBM3"] * 8, "cpu": "EPYC", "cpu_count": 192}
    summary = Summary(meta=Meta(model="m", gpus=used), system=system)
    assert summary.measured == f"m, {words}"
    elsewhere = replace(summary, meta=Meta(model="m", gpus={}, cpus_of=("node-a", "node-b")))
    assert elsewhere.measured == "m, CPU of node-a, CPU of node-b"
