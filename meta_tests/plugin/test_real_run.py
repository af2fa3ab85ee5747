"""A real engine under a real LoadGen, from the command that a user types."""

from __future__ import annotations

import json
import os
import signal
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest

from meta_tests.plugin.test_suite_with_stand_in import SHORTENED as SHORTENED_CASES
from meta_tests.suite_runs import SuiteRun, start_suite, still_running, wait_until
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.loadgen.logs import read_logs
from mlperf_suite.results.run_folder import read_summary

SHORTENED = {rule: f"test_{rule}[{case}]" for rule, case in SHORTENED_CASES.items()}
"""The rules that smoke shortens in Offline, and the test of each."""
AUDIT = {
    "test06_settings": "test_settings[llama3.1-8b-offline-test06]",
    "test06_sample_count": "test_test06_sample_count[llama3.1-8b-offline]",
}
"""Shortened too on a machine that is too slow for the audit's own 100 queries."""


def shortened_here(run: SuiteRun) -> dict[str, str]:
    """By rule, its test: what smoke shortens on this machine."""
    conf = (run.folder / "Compliance" / "TEST06" / "audit.config").read_text()
    whole = "min_query_count = 100\n" in conf
    return SHORTENED if whole else SHORTENED | AUDIT


def test_an_unbroken_engine_passes(real_run: SuiteRun) -> None:
    assert real_run.exit_code == 0, real_run.output
    assert real_run.summary.meta.status == "complete"


def test_no_shortened_rule_counts_as_passed(real_run: SuiteRun) -> None:
    statuses, shortened = real_run.statuses(), shortened_here(real_run)
    assert {rule for rule, status in statuses.items() if status == "shortened"} == shortened.keys()
    assert set(statuses.values()) == {"passed", "shortened"}
    assert f"{len(shortened)} shortened" in real_run.output
    cases = ET.parse(real_run.results_dir.parent / "junit.xml").iter("testcase")
    skipped = {case.get("name", "") for case in cases if case.find("skipped") is not None}
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "exit_code", "reason"),
    [
        pytest.param("EngineCore", 1, "the engine died while answering", id="engine killed"),
        pytest.param("Worker", 1, "the engine died", id="worker killed"),
        pytest.param("Ctrl-C", 2, "interrupted", id="Ctrl-C"),
    ],
)
def test_a_fault_in_the_middle_ends_the_session(
    tmp_path: Path, fault: str, exit_code: int, reason: str
) -> None:
    process = start_suite(tmp_path, "-m", "offline and datacenter")
    wait_until(lambda: bool(list(tmp_path.glob("2*/Accuracy/mlperf_log_detail.txt"))), process)
    children = psutil.Process(process.pid).children(recursive=True)
    if fault == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)
    else:
        for child in children:
            if fault in child.name():
                child.kill()
    # The limit is the promise: every fault ends within 30 s, nothing hangs.
    output, _ = process.communicate(timeout=30)
    assert process.returncode == exit_code, output
    # Python's own resource tracker hears of its parent's end a moment later.
    psutil.wait_procs(children, timeout=30)
    assert not still_running(children)
    (folder,) = tmp_path.glob("2*")
    summary = read_summary(folder)
    assert summary is not None
    assert summary.meta.status == "failed"
    assert reason in (summary.meta.reason or "")
    assert f"failed: {reason}" in output
    assert "Traceback" not in output
    assert (folder / "Accuracy" / "mlperf_log_detail.txt").is_file()
