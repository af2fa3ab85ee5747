"""Processes that a sandbox should have ended."""

import os

import psutil


def remaining(mark: str = "inside.py") -> list[psutil.Process]:
    """Supervisors of this process that are still there, and processes with a mark of their own."""
    processes = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        supervises = "inside.py" in line and process.ppid() == os.getpid()
        if supervises or (mark != "inside.py" and mark in line):
            processes.append(process)
    return processes
