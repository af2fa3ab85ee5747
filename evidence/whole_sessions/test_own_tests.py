"""A user's own tests, outside of tests/: the engine, the data set and runs that they ask for."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT, SuiteRun, run_suite

PLUGIN = ("-p", "meta_tests.stand_in_plugin", "-p", "meta_tests.reports.undrawn", "--warmup=0")
SHORT = "--offline-target-qps=8.4"
"""For runs whose length is not asked for: at its own rate, the stand-in would work for 10 s."""


TESTS = """
def test_engine_and_data(engine, dataset):
    assert engine.alive and engine.description.stand_in
    assert [*dataset] == ["llama3.1-8b", "llama3.1-8b-edge"]
    assert all(len(samples.items) > 50 for samples in dataset.values())


def test_data_alone(dataset):
    assert "llama3.1-8b" in dataset


def test_runs(offline_run, accuracy_run):
    (second,) = offline_run.summary.run.performance.repeats
    assert second.tokens_per_sec > 0
    assert (offline_run.folder / "Performance" / "repeat_2" / "mlperf_log_detail.txt").is_file()
    assert accuracy_run.summary.run.accuracy.passed
    assert (accuracy_run.folder / "Accuracy" / "mlperf_log_detail.txt").is_file()
    accuracy_run.obeys("accuracy_every_sample")
"""


def test_engine_data_and_runs_are_those_of_the_options(own_folder: Path, tmp_path: Path) -> None:
    run = run_own(own_folder, tmp_path, TESTS, "-m", "not accuracy")
    assert run.exit_code == 0, run.output
    assert "2 passed" in run.output and "plan: 1 step" in run.output
    options = ("-k", "test_runs", "--scenario=offline", "--benchmark=llama3.1-8b", "--repeat=2")
    run = run_own(own_folder, tmp_path, TESTS, *options, SHORT)
    assert run.exit_code == 0, run.output
    # The plan: load, idle power, probe and three runs.
    assert "1 passed" in run.output and "plan: 6 steps" in run.output


def test_an_engine_that_does_not_load_is_one_line(own_folder: Path, tmp_path: Path) -> None:
    run = run_own(own_folder, tmp_path, TESTS, "-m", "not accuracy", load_error="no engine today")
    assert run.exit_code == 1, run.output
    assert "no engine today" in run.output.splitlines()
    assert "Traceback" not in run.output and "raise " not in run.output
    assert len([line for line in run.output.splitlines() if line.startswith("ERROR ")]) == 1


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A folder in the repository, where conftest.py holds, that nobody else collects."""
    folder = Path(tempfile.mkdtemp(prefix=".own_tests_", dir=ROOT))
    yield folder
    shutil.rmtree(folder)


def run_own(
    folder: Path, results: Path, source: str, *options: str, **stand_in: object
) -> SuiteRun:
    (folder / "test_mine.py").write_text(source)
    return run_suite(results, str(folder), *PLUGIN, *options, STAND_IN=json.dumps(stand_in))
