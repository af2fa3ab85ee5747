"""Judging folders by `pytest --logs`."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from meta_tests.judging.trees import pytest_run
from meta_tests.made_runs import MadeRun, write_run
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B


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
    status, output = pytest_run(f"--logs={tmp_path / folder}")
    assert status == 4
    assert f"--logs {tmp_path / folder}: {message}" in output


def test_logs_of_which_nothing_is_judged_are_no_success(tmp_path: Path) -> None:
    run = MadeRun(LLAMA3_1_8B, LLAMA3_1_8B.scenario("Server"), "performance")
    write_run(tmp_path / "Performance", run)
    (tmp_path / "summary.json").write_text('{"meta": {"profiler": "torch"}}')
    status, output = pytest_run("-m", "compliance", f"--logs={tmp_path}")
    assert status == 1
    assert "ERROR: nothing of these logs could be judged" in output


def test_a_folder_that_is_not_judged_is_named_in_printable_words(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"root\x1b[2J\xff")
    root.mkdir()
    status, output = pytest_run("-m", "compliance", f"--logs={root}")
    assert status == 4
    assert "root?[2J?: no LoadGen log (mlperf_log_*) and no result_summary.json in it" in output
    assert not re.search(r"[\x1b\x9b]", output)
