"""Grading side by side: the order of answers, the time, a sandbox that breaks."""

from __future__ import annotations

import threading
import time

import pytest

from mlperf_suite.scorers.code_grading import CodeGrades, grade_each, worker_count
from mlperf_suite.scorers.sandbox.box import SandboxError

MEMORY = 2**20


def test_verdicts_come_in_the_order_of_the_answers() -> None:
    def grade(index: int, _stop: threading.Event) -> bool | None:
        time.sleep(0.02 * (index % 3))
        return None if index == 4 else index % 2 == 0

    grades = grade_each(7, grade, memory_bytes=MEMORY, budget_s=60)
    assert grades == CodeGrades((True, False, True, False, None, False, True))


def test_no_answers_are_no_verdicts() -> None:
    grades = grade_each(0, lambda index, stop: True, memory_bytes=MEMORY, budget_s=60)
    assert grades == CodeGrades(())


def test_nothing_is_started_once_the_time_is_over() -> None:
    grades = grade_each(3, lambda index, stop: True, memory_bytes=MEMORY, budget_s=-1)
    assert grades.passed == (None, None, None)
    assert grades.not_judged == "-1 s were over after 0 of 3 programs"


def test_a_sandbox_that_breaks_ends_the_grading() -> None:
    def grade(index: int, stop: threading.Event) -> bool | None:
        if index == 0:
            raise SandboxError("no sandbox: gone")
        stop.wait(20)
        return True

    grades = grade_each(50, grade, memory_bytes=MEMORY, budget_s=60)
    assert grades == CodeGrades((None,) * 50, "no sandbox: gone")


def test_what_runs_is_told_to_stop_when_the_user_does() -> None:
    begin, end = threading.Event(), threading.Event()

    def grade(index: int, stop: threading.Event) -> bool | None:
        if index == 0:
            begin.wait(20)
            raise KeyboardInterrupt
        begin.set()
        if stop.wait(20):
            end.set()
        return True

    if worker_count(MEMORY) == 1:
        pytest.skip("one core: nothing runs beside")
    with pytest.raises(KeyboardInterrupt):
        grade_each(2, grade, memory_bytes=MEMORY, budget_s=60)
    assert end.is_set()


def test_there_are_no_more_workers_than_memory() -> None:
    assert worker_count(2**60) == 1
    assert worker_count(1) >= 1
