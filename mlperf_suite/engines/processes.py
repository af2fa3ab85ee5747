"""Finds the processes that an engine started, and ends them reliably."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psutil


def descendants() -> list[psutil.Process]:
    """This process's children and their children.

    Returns Process objects, since the id of an ended process may be reused. Leaves out the resource
    trackers of multiprocessing, which ignore a request to end and end with their owner.
    """
    children = psutil.Process().children(recursive=True)
    return [child for child in children if not _is_tracker(child)]


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any("multiprocessing.resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return False


def end_processes(processes: Sequence[psutil.Process], patience_s: float = 5.0) -> None:
    """End these processes: ask first, then kill those still alive after `patience_s`."""
    alive = [process for process in processes if process.is_running()]
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(alive, timeout=patience_s)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=patience_s)
