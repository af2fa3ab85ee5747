"""A real session whose engine or user ends it in the middle of a run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from meta_tests.suite_runs import start_suite, still_running, wait_until
from mlperf_suite.results.run_folder import read_summary


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
    # A guard against hanging.
    output, _ = process.communicate(timeout=120)
    assert process.returncode == exit_code, output
    # Python's own resource tracker hears of its parent's end a moment later.
    psutil.wait_procs(children, timeout=120)
    assert not still_running(children)
    (folder,) = tmp_path.glob("2*")
    summary = read_summary(folder)
    assert summary is not None
    assert summary.meta.status == "failed"
    assert reason in (summary.meta.reason or "")
    assert f"failed: {reason}" in output
    assert "Traceback" not in output
    assert (folder / "Accuracy" / "mlperf_log_detail.txt").is_file()
