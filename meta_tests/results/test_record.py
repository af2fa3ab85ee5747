"""What a result's summary and its scorer's file say, whatever the scorer is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.benchmarks.definition import ReferenceAccuracy, at_least, within
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.features.peak_search.figures import PeakSearch, SearchPart
from mlperf_suite.results.record import (
    Result,
    RunRecord,
    accuracy_figures,
    scorer_json,
    summary_of,
)
from mlperf_suite.results.run_folder import RunFolder
from mlperf_suite.results.schema import (
    Meta,
    PerformanceFigures,
    PlanRow,
    Summary,
    WarmUpFigures,
)
from mlperf_suite.rules.verdict import Verdict
from mlperf_suite.scorers.scorer import Score, Scores

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
    search = result.parts["peak search"] = SearchPart()
    assert _status(result) == ("running", None)
    search.outcome = PeakSearch((), None)
    assert _status(result) == ("invalid", None)
    search.outcome = PeakSearch((), 3.5)
    assert _status(result) == ("complete", None)
    result.cut_short = "the session ended"
    assert _status(result) == ("failed", "the session ended")
    search.failure = "a rate died"
    assert _status(result) == ("failed", "a rate died")
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
