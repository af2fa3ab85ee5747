"""Judging folders by `pytest --logs`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meta_tests.judging.trees import ALSO_SEEN, RESULT, ROOT
from meta_tests.made_runs import MadeRun, write_run
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.loadgen.logs import DETAIL


def pytest_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_each_rule_of_each_run_is_a_test_of_its_name(submission: Path, tmp_path: Path) -> None:
    log = submission / RESULT / "performance/run_1" / DETAIL
    log.write_text(log.read_text().replace("600000", "60000"))
    process = pytest_run("-m", "compliance", f"--logs={tmp_path}", "-q", "-rfs")
    name = "Someone-box-llama3.1-8b-Server"
    assert process.returncode == 1
    assert f"FAILED tests/compliance/test_logs.py::test_rule[{name}-min_duration]" in process.stdout
    assert "found 60,000 ms, required at least 600,000 ms" in process.stdout
    assert f"{name} v6.1:" in process.stdout
    failures = set(re.findall(rf"FAILED .*\[{name}-(\w+)\]", process.stdout))
    assert failures - ALSO_SEEN == {"min_duration"}


@pytest.mark.parametrize("option", [(), ("--high-accuracy",)])
def test_the_high_gate_is_asked_for_by_its_option(
    submission: Path, tmp_path: Path, option: Any
) -> None:
    txt = submission / RESULT / "accuracy/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "38.5"))
    process = pytest_run("-m", "compliance", f"--logs={tmp_path}", "-q", *option)
    wrong = set(re.findall(r"FAILED .*-(accuracy_\w+)\]", process.stdout))
    assert wrong == ({"accuracy_rouge1", "accuracy_passed"} if option else set())
    assert process.returncode == (1 if option else 0)


def test_a_marker_picks_from_the_logs(submission: Path, tmp_path: Path) -> None:
    process = pytest_run(
        "-m", "server and performance", f"--logs={tmp_path}", "--collect-only", "-q"
    )
    tests = [t for t in process.stdout.splitlines() if "::" in t]
    assert tests and all("-Server-" in t for t in tests)


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("nowhere", "no such folder"),
        ("empty", "no LoadGen log"),
        ("searched", "holds only trial runs of a peak search"),
    ],
)
def test_a_folder_without_logs_is_a_usage_error(tmp_path: Path, folder: Path, message: Any) -> None:
    (tmp_path / "empty").mkdir()
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    write_run(tmp_path / "searched/PeakQps/01", run)
    (tmp_path / "searched/summary.json").write_text("{}")
    process = pytest_run(f"--logs={tmp_path / folder}")
    assert process.returncode == 4
    assert f"--logs {tmp_path / folder}: {message}" in process.stderr


def test_logs_of_which_nothing_is_judged_are_no_success(tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    write_run(tmp_path / "Performance", run)
    (tmp_path / "summary.json").write_text('{"meta": {"profiler": "torch"}}')
    process = pytest_run("-m", "compliance", f"--logs={tmp_path}")
    assert process.returncode == 1
    assert "ERROR: nothing of these logs could be judged" in process.stdout


def test_without_logs_there_is_no_test_of_them() -> None:
    process = pytest_run("tests/compliance", "--collect-only", "-q")
    assert "test_logs" not in process.stdout
