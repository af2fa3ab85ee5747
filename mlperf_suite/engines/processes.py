"""The processes that an engine starts, and their sure end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psutil


def descendants() -> list[int]:
    """The ids of this process's children, their children included."""
    return [child.pid for child in psutil.Process().children(recursive=True)]


def end_processes(pids: Sequence[int], patience_s: float = 5.0) -> None:
    """End these processes: ask first, kill those that are still there after `patience_s`."""
    alive = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(alive, timeout=patience_s)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=patience_s)
