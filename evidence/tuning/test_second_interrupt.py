"""A second Ctrl-C while a run is ended leaves nothing of it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from pytest import MonkeyPatch

from mlperf_suite.features.tuning import tune
from mlperf_suite.features.tuning.space import Settings
from mlperf_suite.features.tuning.target import TARGETS
from mlperf_suite.features.tuning.trial_run import Command, Measured, run_trial
from mlperf_suite.features.tuning.tuning_request import Request

OFFLINE = TARGETS["offline"]
Script = Callable[[str], None]


def measured(folder: Path, settings: Settings, limit_s: float = 600) -> Measured:
    folder.mkdir(exist_ok=True)
    return run_trial(Command(folder, settings, OFFLINE.trial, (), limit_s), OFFLINE)


@pytest.fixture
def python(tmp_path: Path, monkeypatch: MonkeyPatch) -> Script:
    """Makes each run this script for a shell, in the place of the suite."""

    def install(script: str) -> None:
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))

    return install


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def id_in(file: Path) -> int:
    while not (file.exists() and file.read_text().endswith("\n")):
        time.sleep(0.05)
    return int(file.read_text())


def request_in(folder: Path) -> Request:
    return Request(folder, 0.2, {"max_num_seqs": (None, 16, 32)})


@pytest.mark.parametrize(
    "run",
    [
        lambda folder: measured(folder, {}),
        # A thread whose join is interrupted counts as ended to Python, and would not be awaited.
        lambda folder: tune.tune(request_in(folder), print),
    ],
    ids=["trial", "tuning"],
)
def test_a_second_ctrl_c_leaves_no_run_either(
    tmp_path: Path, python: Script, run: Callable[[Path], object]
) -> None:
    mark, asked = tmp_path / "ran", tmp_path / "asked"
    python(f"trap 'touch {asked}' INT\necho $$ >{mark}\nwhile :; do sleep 0.1; done")

    def cancel() -> None:
        id_in(mark)
        os.kill(os.getpid(), signal.SIGINT)
        while not asked.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=cancel, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out")
    left = [psutil.Process(id_in(mark))] if psutil.pid_exists(id_in(mark)) else []
    psutil.wait_procs(left, 60)
    assert is_gone(id_in(mark))
