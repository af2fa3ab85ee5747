"""The processes that an engine starts, and their end."""

from __future__ import annotations

import subprocess
import sys

from mlperf_suite.engines.watch import descendants, end_processes

_SLEEPS = "import time; time.sleep(600)"


def test_a_resource_tracker_is_no_process_of_the_engine() -> None:
    """It does not end when asked to: each close of an engine would wait for it."""
    tracker = "from multiprocessing.resource_tracker import main; " + _SLEEPS
    children = [subprocess.Popen([sys.executable, "-c", code]) for code in (tracker, _SLEEPS)]
    try:
        pids = {process.pid for process in descendants()}
        assert {child.pid for child in children} & pids == {children[1].pid}
    finally:
        for child in children:
            child.kill()
            child.wait(30)


def test_stopped_processes_are_ended() -> None:
    children = subprocess.Popen([sys.executable, "-c", _SLEEPS])
    (process,) = [child for child in descendants() if child.pid == children.pid]
    process.suspend()
    end_processes([process], patience_s=0.1)
    assert not process.is_running()
    children.wait(30)
