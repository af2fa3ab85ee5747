"""Trials that run a script for a shell in the place of the suite, and what is left of them."""

import sys
import time
from pathlib import Path

import psutil
from pytest import MonkeyPatch

from mlperf_suite.features.tuning.space import Settings
from mlperf_suite.features.tuning.target import TARGETS
from mlperf_suite.features.tuning.trial_run import Command, MeasuredTrial, run_trial
from mlperf_suite.features.tuning.tuning_request import TuningRequest

STAND_IN = ("-p", "meta_tests.stand_in_plugin", "--total-sample-count=24")


def measured(folder: Path, settings: Settings, limit_s: float = 600) -> MeasuredTrial:
    """A trial of Offline; of the suite itself, on a stand-in engine."""
    folder.mkdir(exist_ok=True)
    target = TARGETS["offline"]
    return run_trial(Command(folder, settings, target.trial, STAND_IN, limit_s), target)


def run_script(folder: Path, monkeypatch: MonkeyPatch, script: str) -> None:
    """Let each trial run this script, which is written to the folder."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def id_in(file: Path) -> int:
    while not (file.exists() and file.read_text().endswith("\n")):
        time.sleep(0.05)
    return int(file.read_text())


def request_in(folder: Path) -> TuningRequest:
    return TuningRequest(folder, 0.2, {"max_num_seqs": (None, 16, 32)})
