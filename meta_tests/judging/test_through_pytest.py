"""Judging folders by `pytest --logs`."""

import csv
import os
import re
from pathlib import Path
from typing import Any

import pytest

from meta_tests.judging.trees import ALSO_SEEN, RESULT
from meta_tests.made_runs import MadeRun, write_run
from meta_tests.suite_runs import PYTEST
from meta_tests.warm_pytest import run_warm
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.loadgen.logs import DETAIL
from mlperf_suite.reports.sections import significant
from mlperf_suite.rules.verdict import time_words


def pytest_run(*arguments: str) -> tuple[int, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    command = (*PYTEST[3:], "-p", "no:cacheprovider", *arguments)
    return run_warm(command, environment, 1800.0)


def test_figures_and_each_failure_once_with_what_to_run_next(
    submission: Path, tmp_path: Path
) -> None:
    """In the terminal, on a page and as CSV."""
    log = submission / RESULT / "performance/run_1" / DETAIL
    log.write_text(log.read_text().replace("600000", "60000"))
    page, table = tmp_path / "logs.html", tmp_path / "logs.csv"
    files = f"--logs-html={page}", f"--logs-csv={table}"
    status, output = pytest_run("-m", "compliance", f"--logs={tmp_path}", "-q", *files)
    name = "Someone-box-llama3.1-8b-Server"
    assert status == 1
    assert f"{name} v6.1: contradicts itself; " in output and "FAILED tests/" not in output
    assert re.search(
        rf"min_duration: FAILED in 1 result: .*\n  found 60 s, .*\n    {name}\n", output
    )
    assert output.count("required at least 600 s") == 1
    row = next(r for r in csv.DictReader(table.read_text().splitlines()) if r["result"] == name)
    failures = row["failed_rules"].split()
    assert set(failures) - ALSO_SEEN == {"min_duration"} and row["claim"] == "contradicts itself"
    assert float(row["score_rouge1"]) == 38.7792 and "rouge1 38.78" in output
    tokens, ttft = float(row["tokens_per_sec"]), float(row["ttft_p99_ms"])
    for figure in (significant(tokens), time_words(ttft)):
        assert f" {figure} " in output and f">{figure}<" in page.read_text()
    again = f'pytest --logs {tmp_path} -k "'
    assert again in output and "min_duration" in output.partition(again)[2].partition('"')[0]


def test_the_high_gate_is_asked_for_by_its_option(submission: Path, tmp_path: Path) -> None:
    txt = submission / RESULT / "accuracy/accuracy.txt"
    txt.write_text(txt.read_text().replace("38.7792", "38.5"))
    status, output = pytest_run(
        "-m", "compliance", f"--logs={tmp_path}", "-q", "--high-accuracy", "-rf"
    )
    assert status == 1
    wrong = set(re.findall(r"FAILED .*-(accuracy_\w+)\]", output))
    assert wrong == {"accuracy_rouge1", "accuracy_passed"}


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
