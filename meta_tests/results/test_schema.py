"""summary.json's schema: what is written is read again, and nothing that a file may hold
stops a reader."""

import json
import types
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from meta_tests.suite_runs import ROOT, run_python
from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import ReferenceAccuracy, at_least, within
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.results.record import Result, RunRecord, accuracy_figures, scorer_json, summary_of
from mlperf_suite.results.run_folder import RunFolder
from mlperf_suite.results.schema import (
    SCHEMA_VERSION,
    Config,
    Meta,
    PerformanceFigures,
    PlanRow,
    Summary,
    WarmUpFigures,
    figures_of_features,
    figures_type,
)
from mlperf_suite.rules.verdict import Status, Verdict
from mlperf_suite.scorers.scorer import Score, Scores

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
            kinds = {name: _values(figures_type(p)) for name, p in figures_of_features().items()}
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


# What a result's summary and its scorer's file say, whatever the scorer is


STARTED = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
PASSED, FAILED = (Verdict("seeds", s, "a", "b") for s in ("passed", "failed"))
SESSION = Summary(
    meta=Meta(
        label="a label", samples=84, samples_why="as many as ten seconds take", node_name="node"
    ),
    system={"cpu": "a"},
    plan=(PlanRow("loading the engine", 30.0, 21.7), PlanRow("accuracy")),
)
ROUGE = Scores(
    (
        Score("rouge1", 39.0, "%"),
        Score("rougeL", 25.0, "%"),
        Score("gen_len", 1000, "characters"),
        Score("gen_num", 84, "answers"),
    ),
    {"rouge1": (38.0, 40.0)},
)
REFERENCE = ReferenceAccuracy(
    (at_least("rouge1", 40.0), at_least("rougeL", 24.0), within("gen_len", "characters", 1100)),
    84,
    "a source",
)


@pytest.fixture
def result(tmp_path: Path) -> Result:
    folder = RunFolder(tmp_path, LLAMA3_1_8B.id, "Server", STARTED)
    return Result(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), folder, STARTED)


def test_a_summary_says_what_was_run_and_what_came_of_it(result: Result) -> None:
    warm_up = WarmUpFigures(12, 1416, 4.1, "at 3 queries/s")
    figures = accuracy_figures(ROUGE, REFERENCE, False, 84, True)
    result.runs["accuracy"] = RunRecord([PASSED], figures, rate=2.5, warm_up=warm_up)
    result.runs["performance"] = RunRecord([FAILED], PerformanceFigures(qps=3.0, valid=True))
    (result.folder.path / "Accuracy").mkdir()
    (result.folder.path / "Accuracy" / "mlperf_log_detail.txt").touch()
    summary = summary_of(result, SESSION, {"accuracy", "performance"})
    meta = summary.meta
    assert (meta.kind, meta.category) == (("llama3.1-8b", "Server"), "datacenter")
    assert (meta.samples, meta.samples_why) == (84, "as many as ten seconds take")
    assert (meta.started, meta.node_name) == ("2026-11-20T10:15:00+00:00", "node")
    assert (meta.status, meta.reason) == ("invalid", None)
    assert summary.run.accuracy == figures
    rouge1, length = figures.score("rouge1"), figures.score("gen_len")
    assert rouge1 is not None and length is not None
    assert (rouge1.low, rouge1.high, rouge1.reference) == (39.6, None, 40.0)
    assert (rouge1.standard_error, length.low, length.high) == (1.0, 990.0, 1210.0)
    assert accuracy_figures(ROUGE, REFERENCE, True, 84, True).scores[0].low == 39.96
    assert summary.run.performance == PerformanceFigures(qps=3.0, valid=True)
    assert summary.run.warm_up == {"accuracy": warm_up}
    assert (summary.plan, summary.system) == (SESSION.plan, {"cpu": "a"})
    assert summary.verdicts == (PASSED, FAILED)
    assert summary.logs == ("Accuracy/mlperf_log_detail.txt",)


def _status(result: Result, *selection: Mode) -> tuple[str, str | None]:
    meta = summary_of(result, SESSION, set(selection)).meta
    return meta.status, meta.reason


def test_a_results_status(result: Result) -> None:
    assert _status(result) == ("running", None)
    result.runs["accuracy"] = RunRecord([PASSED])
    assert _status(result, "accuracy") == ("complete", None)
    assert _status(result, "accuracy", "performance") == ("running", None)
    part: Any = SimpleNamespace(optional=True, complete=False, spoiled=False, failure=None)
    part.summed_up = lambda summary: summary
    result.parts["a part"] = part
    assert _status(result) == ("running", None)
    part.complete = part.spoiled = True
    assert _status(result) == ("invalid", None)
    part.spoiled = False
    assert _status(result) == ("complete", None)
    part.complete, part.failure = False, "interrupted"
    assert _status(result) == ("complete", None)
    assert _status(replace(result, runs={})) == ("failed", "interrupted")
    result.cut_short = "the session ended"
    assert _status(result) == ("failed", "the session ended")
    result.runs["performance"] = RunRecord(failure="the engine died")
    assert _status(result) == ("failed", "the engine died")


def test_rouges_file_has_the_names_that_it_always_had() -> None:
    content = scorer_json(ROUGE, REFERENCE, False)
    assert content == {
        "rouge1": 39.0,
        "rougeL": 25.0,
        "baseline": {"rouge1": 40.0, "rougeL": 24.0},
        "baseline_gen_len": 1100,
        "baseline_source": "a source",
        "gate_multiplier": 0.99,
        "threshold_rouge1": 39.6,
        "threshold_rougeL": 23.76,
        "run_gen_len": 1000,
        "run_gen_num": 84,
    }
    assert scorer_json(ROUGE, REFERENCE, True)["gate_multiplier"] == 0.999
    unknown = scorer_json(ROUGE, None, False)
    assert {*content} <= {*unknown}
    for name in ("baseline", "gate_multiplier", "threshold_rouge1", "baseline_source"):
        assert unknown[name] is None
    # Another scorer's file has its own names.
    scores = Scores((Score("exact_match", 81.0, "%"), Score("f1", 90.0, "%")))
    reference = ReferenceAccuracy((at_least("exact_match", 80.0), at_least("f1", 90, 0.9)), 8, "x")
    content = scorer_json(scores, reference, False)
    assert (content["threshold_exact_match"], content["threshold_f1"]) == (79.2, 81.0)
    assert content["gate_multiplier"] == {"exact_match": 0.99, "f1": 0.9}
