"""Grades many programs at once, each in a sandbox, within a time budget."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mlperf_suite.scorers.code_grading import CodeGrades
from mlperf_suite.scorers.sandbox.box import SandboxError


def worker_count(memory_bytes: int) -> int:
    """How many programs run at once: one per core, as long as each can have this much memory."""
    import psutil

    cores = len(os.sched_getaffinity(0))
    return max(1, min(cores, int(psutil.virtual_memory().available // memory_bytes)))


def grade_each(
    count: int,
    grade: Callable[[int, threading.Event], bool | None],
    *,
    memory_bytes: int,
    budget_s: float,
) -> CodeGrades:
    """The grades that `grade` returns for 0 to count - 1, in that order.

    `grade` gets the index and an event that tells a running program to stop. No program is started
    once `budget_s` is over or a sandbox could not be set up; then the figure is not judged.
    """
    stop = threading.Event()
    deadline = time.monotonic() + budget_s
    broken: list[str] = []
    late: list[int] = []

    def one(index: int) -> bool | None:
        if stop.is_set() or time.monotonic() > deadline:
            late.append(index)
            return None
        try:
            return grade(index, stop)
        except SandboxError as error:
            broken.append(str(error))
            stop.set()
            return None

    with ThreadPoolExecutor(worker_count(memory_bytes), "sandbox") as pool:
        try:
            passed = tuple(pool.map(one, range(count)))
        except BaseException:
            # Ctrl-C: running programs are killed, so that leaving the pool does not wait for them.
            stop.set()
            raise
    if broken:
        return CodeGrades((None,) * count, broken[0])
    if late:
        reason = f"{budget_s:g} s were over after {count - len(late)} of {count} programs"
        return CodeGrades(passed, reason)
    return CodeGrades(passed)
