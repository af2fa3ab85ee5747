"""A real engine under a real LoadGen: one session, from the command that a user types.

The one session of these tests that loads a real engine; what needs one beside it is in
engine_checks.py, on the same engine. It has the machine for itself (`alone`).
"""

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from meta_tests.suite_runs import SuiteRun, run_suite
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.loadgen.logs import read_logs

pytestmark = pytest.mark.alone
CHECKS = Path(__file__).with_name("engine_checks.py")
SHORTENED = {
    "accuracy_whole_dataset": "test_accuracy_whole_dataset[llama3.1-8b-offline]",
    "min_duration": "test_min_duration[llama3.1-8b-offline]",
    "performance_sample_count": "test_performance_sample_count[llama3.1-8b-offline]",
    "offline_samples_per_query": "test_offline_samples_per_query[llama3.1-8b]",
}
"""The rules that smoke shortens in Offline, and the test of each."""
AUDIT = {
    "test06_settings": "test_settings[llama3.1-8b-offline-test06]",
    "test06_sample_count": "test_test06_sample_count[llama3.1-8b-offline]",
}
"""Shortened too on a machine that is too slow for the audit's own 100 queries."""


@pytest.fixture(scope="module")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    """Offline: accuracy, performance and TEST06, with the checks of the engine before them."""
    folder = tmp_path_factory.mktemp("real")
    return run_suite(
        folder / "results",
        *("-m", "offline and datacenter", "--total-sample-count=16"),
        f"--junitxml={folder}/junit.xml",
        *("tests", str(CHECKS)),
    )


def cases(run: SuiteRun) -> list[ET.Element]:
    """The test cases of the session."""
    return list(ET.parse(run.results_dir.parent / "junit.xml").iter("testcase"))


def shortened_here(run: SuiteRun) -> dict[str, str]:
    """By rule, its test: what smoke shortens on this machine."""
    conf = (run.folder / "Compliance" / "TEST06" / "audit.config").read_text()
    whole = "min_query_count = 100\n" in conf
    return SHORTENED if whole else SHORTENED | AUDIT


def test_an_unbroken_engine_passes(real_run: SuiteRun) -> None:
    assert real_run.exit_code == 0, real_run.output
    assert real_run.summary.meta.status == "complete"


def test_the_engine_passed_each_of_its_own_checks(real_run: SuiteRun) -> None:
    checked = {
        case.get("name"): case.find("failure") is None and case.find("error") is None
        for case in cases(real_run)
        if (case.get("classname") or "").endswith(CHECKS.stem)
    }
    assert len(checked) == CHECKS.read_text().count("\ndef test_")
    assert all(checked.values()), checked


def test_no_shortened_rule_counts_as_passed(real_run: SuiteRun) -> None:
    statuses, shortened = real_run.statuses(), shortened_here(real_run)
    assert {rule for rule, status in statuses.items() if status == "shortened"} == shortened.keys()
    assert set(statuses.values()) == {"passed", "shortened"}
    assert f"{len(shortened)} shortened" in real_run.output
    skipped = {case.get("name", "") for case in cases(real_run) if case.find("skipped") is not None}
    assert skipped == set(shortened.values())


def test_the_result_says_that_it_is_a_smoke_run(real_run: SuiteRun) -> None:
    label = "smoke: not an MLPerf result"
    assert real_run.summary.meta.label == label
    assert "SMOKE RUN, not an MLPerf result" in real_run.output
    assert label in (real_run.folder / "report.md").read_text()
    assert label in (real_run.results_dir / "index.md").read_text()


def test_the_official_seeds_took(real_run: SuiteRun) -> None:
    for folder in ("Accuracy", "Performance"):
        detail = read_logs(real_run.folder / folder).detail
        for name, seed in ROUNDS["v6.1"].seeds.items():
            assert detail[f"effective_{name}"] == seed


def test_the_engine_used_every_core_and_no_prefix_cache(real_run: SuiteRun) -> None:
    config = json.loads((real_run.folder / "config.json").read_text())
    settings = config["engine"]["settings"]
    assert settings["enable_prefix_caching"] is False
    assert settings["omp_threads_bind"] == ",".join(map(str, sorted(os.sched_getaffinity(0))))
    assert config["engine"]["stand_in"] is False


def test_the_result_comes_last_and_fits_a_terminal_of_80_by_24(real_run: SuiteRun) -> None:
    *_, end = real_run.output.split(" llama3.1-8b Offline ")
    lines = end.splitlines()
    # The heading's rest, the prompt's line and the result's own path aside.
    assert len(lines) < 24
    assert max(len(line) for line in lines if not line.startswith("report ")) <= 80
    assert lines[1].startswith("SMOKE RUN, not an MLPerf result: ")
