"""Sessions of the suite as a user starts them: `pytest` in a process of its own, to its end or into
a fault."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from meta_tests.warm_pytest import WarmSession, can_be_forked
from mlperf_suite.results.run_folder import read_summary, run_folders
from mlperf_suite.results.schema import Summary

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:anyio")
"""pytest as a user starts it, without two plugins that the suite's tests do not use."""
_PATIENCE_S = 1800.0
"""A guard against hanging: no machine is so slow."""


@dataclass(frozen=True)
class SuiteRun:
    exit_code: int
    output: str
    results_dir: Path

    @property
    def folder(self) -> Path:
        """The latest run, or the only one, which measured nothing."""
        latest = self.results_dir / "latest"
        return latest.resolve() if latest.exists() else run_folders(self.results_dir)[-1]

    @property
    def summary(self) -> Summary:
        summary = read_summary(self.folder)
        assert summary is not None, self.output
        return summary

    def statuses(self) -> dict[str, str]:
        return {v.rule: v.status for v in self.summary.verdicts}


class Started(Protocol):
    """A session under way: a process of its own, or a fork of a warm one."""

    returncode: Any
    pid: int

    def poll(self) -> int | None: ...

    def send_signal(self, number: int, /) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def communicate(self, *, timeout: float | None = None) -> tuple[str, Any]: ...


def start_suite(results_dir: Path, *arguments: str, **environment: str) -> Started:
    """Start `pytest` on the suite in a process group of its own; without an engine of its own, as
    a fork."""
    arguments = (f"--results-dir={results_dir}", *arguments)
    if can_be_forked(arguments):
        return WarmSession([*PYTEST[3:], *arguments], _own_environment() | environment)
    return subprocess.Popen(
        [*PYTEST, *arguments],
        cwd=ROOT,
        env=_own_environment() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _own_environment() -> dict[str, str]:
    """This process's environment, without the variables of a pytest-xdist worker."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}


def run_suite(results_dir: Path, *arguments: str, **environment: str) -> SuiteRun:
    process = start_suite(results_dir, *arguments, **environment)
    try:
        output, _ = process.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return SuiteRun(process.returncode, output, results_dir)


def run_python(
    *arguments: str, folder: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end, in a process of its own, which it may bring down."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


def wait_until(happened: Callable[[], bool], process: Started, patience_s: float = 600) -> None:
    """Wait for something that the process does; fail where it ends or this time passes before."""
    deadline = time.monotonic() + patience_s
    while not happened():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"nothing happened for {patience_s:.0f} s"
        time.sleep(0.1)


def still_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
