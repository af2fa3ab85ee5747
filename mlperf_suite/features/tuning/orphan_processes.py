"""Processes that a run left behind: those that still write into its files.

A process that is in a group or session of its own, or whose parent was killed, has the run's output
all the same.
"""

from __future__ import annotations

import contextlib
import os.path
from collections.abc import Collection
from pathlib import Path

import psutil

from mlperf_suite.engines.hang_detector import end_processes
from mlperf_suite.results.run_folder import ENGINE_LOG

RUN_OUTPUT, SERVER_OUTPUT = "output.txt", "server.txt"
OF_RUNS = (RUN_OUTPUT, ENGINE_LOG)
"""What a run and its engine write; a server that goes on writes another file."""


def end_left_over(folder: Path, names: Collection[str]) -> list[str]:
    """End the processes that write files of these names in a folder, with their children; their
    names and ids."""
    own = {process.pid for process in (psutil.Process(), *psutil.Process().parents())}
    others = (process for process in psutil.process_iter() if process.pid not in own)
    writers = [process for process in others if _writes(process, folder, names)]
    family = {process.pid: process for process in writers}
    for process in writers:
        with contextlib.suppress(psutil.Error):
            family |= {child.pid: child for child in process.children(recursive=True)}
    ended = [word for word in map(_word, family.values()) if word]
    end_processes(list(family.values()))
    return sorted(ended)


def _writes(process: psutil.Process, folder: Path, names: Collection[str]) -> bool:
    place = Path(os.path.realpath(folder))
    with contextlib.suppress(psutil.Error, OSError):
        for file in process.open_files():
            path = Path(file.path)
            if path.name in names and file.mode[:1] in "aw" and path.is_relative_to(place):
                return True
    return False


def _word(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.name()} ({process.pid})"
    return ""
