"""What the tests of the suite share: a real run made once, and ways to start the suite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

from meta_tests.warm_pytest import can_be_forked, end_warm, run_warm
from mlperf_suite.results.run_folder import read_summary
from mlperf_suite.results.schema import Summary

ROOT = Path(__file__).resolve().parent.parent
# Real engines are tested beside other tests. By default, an OpenMP thread that waits for another
# one spins, on the core that the other may need. Every process that a test starts inherits this.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A deadline, or hypothesis's own look at the time, would fail a test for being slow, as any is on a
# machine that is busy. The same examples each time: what fails is then of the change that is
# tested. `--hypothesis-profile search` draws others, and more of them.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("suite")

LONGEST = (
    "plugin/test_real_run.py",
    "engines/endpoint/test_faults.py",
    "plugin/test_suite_with_stand_in.py",
    "judging/test_loose_logs.py",
    "rules/test_every_rule.py",
    "engines/test_vllm_engine.py",
    "results/test_regression.py",
    "loadgen/test_runner.py",
    "rules/test_damaged_logs.py",
    "session/test_mmlu_run.py",
    "judging/test_submissions.py",
    "plugin/test_ci.py",
    "plugin/test_own_tests.py",
    "reports/test_strangers.py",
    "test_secrets.py",
    "engines/endpoint/test_faulty_sessions.py",
    "plugin/test_workers.py",
    "session/test_executor.py",
    "reports/test_reports.py",
    "engines/endpoint/test_routing.py",
    "session/test_pipeline.py",
    "loadgen/test_clock_watch.py",
    "judging/test_damaged_in_bulk.py",
)
"""The files that take longest: pytest-xdist's workers take files in the order of collection, and a
long one at the end would leave the others idle. Files with a real engine are apart from one
another: two at once make both slow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    name = item.path.as_posix().partition("/meta_tests/")[2]
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_sessionfinish() -> None:
    end_warm()


PYTEST = (sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:anyio")
"""pytest as a user starts it, without two plugins that the suite's tests do not use."""
_PATIENCE_S = 1800.0
"""A guard against hanging: no machine is so slow."""


@dataclass(frozen=True)
class SuiteRun:
    """A finished run of the suite as a user starts it."""

    exit_code: int
    output: str
    results_dir: Path

    @property
    def folder(self) -> Path:
        return (self.results_dir / "latest").resolve()

    @property
    def summary(self) -> Summary:
        summary = read_summary(self.folder)
        assert summary is not None, self.output
        return summary

    def statuses(self) -> dict[str, str]:
        return {v.rule: v.status for v in self.summary.verdicts}


def start_suite(results_dir: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start `pytest` on the suite in a process group of its own."""
    command = [*PYTEST, "--results-dir", str(results_dir), *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=_own_environment() | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell ignores SIGINT for what it starts in the background, and children inherit that.
        preexec_fn=hear_ctrl_c,  # noqa: PLW1509 - it takes no lock
    )


def _own_environment() -> dict[str, str]:
    """This process's environment, without the variables of a pytest-xdist worker."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}


def hear_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_suite(results_dir: Path, *arguments: str, **environment: str) -> SuiteRun:
    """Run `pytest` on the suite to its end; without an engine of its own, as a fork."""
    if can_be_forked(arguments):
        command = [*PYTEST[3:], "--results-dir", str(results_dir), *arguments]
        exit_code, output = run_warm(command, _own_environment() | environment, _PATIENCE_S)
        return SuiteRun(exit_code, output, results_dir)
    process = start_suite(results_dir, *arguments, **environment)
    try:
        output, _ = process.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return SuiteRun(process.returncode, output, results_dir)


def wait_until(
    happened: Callable[[], bool], process: subprocess.Popen[str], patience_s: float = 600
) -> None:
    """Wait for something that the process does; fail where it ends or this time passes before."""
    deadline = time.monotonic() + patience_s
    while not happened():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"nothing happened for {patience_s:.0f} s"
        time.sleep(0.1)


def still_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    """The real engine and the real LoadGen, Offline, accuracy and performance.

    Not named as one of the suite's own fixtures, whose tests the plugin parametrizes.
    """
    folder = tmp_path_factory.mktemp("real")
    return run_suite(
        folder / "results",
        *("-m", "offline and datacenter", "--total-sample-count=24"),
        f"--junitxml={folder}/junit.xml",
    )
