"""Adding a benchmark touches its own file, its data and its scorer: proven with one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.judging.judge import judge_folder

PLUGIN = ("-p", "meta_tests.added_benchmark_plugin")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    folder = tmp_path_factory.mktemp("added")
    return run_suite(folder, "-m", "offline and accuracy", "--benchmark=numbers-1b", *PLUGIN)


def test_it_runs_scores_and_is_judged_by_its_own_metrics(numbers: SuiteRun) -> None:
    assert numbers.exit_code == 0, numbers.output
    statuses = {rule: status for rule, status in numbers.statuses().items() if "accuracy_" in rule}
    for metric in ("even", "odd", "mean_tokens"):
        assert statuses[f"accuracy_{metric}"] == "passed"
    assert "accuracy_rouge1" not in statuses
    meta = numbers.summary.meta
    assert (meta.benchmark, meta.scenario, meta.status) == ("numbers-1b", "Offline", "complete")
    assert numbers.folder.name.endswith("-numbers-1b-offline")


def test_its_scores_are_in_every_file_by_their_own_names(numbers: SuiteRun) -> None:
    figures = numbers.summary.run.accuracy
    assert figures is not None
    values = {score.name: (score.value, score.unit) for score in figures.scores}
    assert values == {"even": (100.0, "%"), "odd": (50.0, "%"), "mean_tokens": (2.0, "tokens")}
    own = json.loads((numbers.folder / "Accuracy" / "last_token.json").read_text())
    assert own["even"] == 100.0
    report = (numbers.folder / "report.md").read_text().replace("\\_", "_")
    assert "odd" in report and "mean_tokens" in report


def test_its_logs_are_judged_too(numbers: SuiteRun) -> None:
    """Without the plugin nobody knows the benchmark, and says so instead of passing it."""
    package = Path(__file__).parents[2] / "mlperf_suite"
    assert [p for p in package.rglob("*.py") if "numbers-1b" in p.read_text()] == []
    (judged, *_) = judge_folder(numbers.results_dir)
    assert judged.failed_rules
