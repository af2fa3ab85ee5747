"""Grading side by side: the order of answers, the time, a sandbox that breaks."""

import threading

import pytest

from mlperf_suite.features.code_grading.sandbox.box import SandboxError
from mlperf_suite.features.code_grading.scorers import code_grading
from mlperf_suite.features.code_grading.scorers.code_grading import (
    CodeGrades,
    grade_each,
    worker_count,
)

MEMORY = 2**20


@pytest.fixture
def two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many cores this machine has."""
    monkeypatch.setattr(code_grading, "worker_count", lambda _: 2)


def test_nothing_is_started_without_answers_or_once_the_time_is_over() -> None:
    assert grade_each(0, lambda index, stop: True, memory_bytes=MEMORY, budget_s=60) == CodeGrades(
        ()
    )
    assert worker_count(2**60) == 1 <= worker_count(1)
    grades = grade_each(3, lambda index, stop: True, memory_bytes=MEMORY, budget_s=-1)
    assert grades.passed == (None, None, None)
    assert grades.not_judged == "-1 s were over after 0 of 3 programs"


def test_a_sandbox_that_breaks_ends_the_grading() -> None:
    def grade(index: int, stop: threading.Event) -> bool | None:
        if index == 0:
            raise SandboxError("no sandbox: gone")
        assert stop.wait(120)
        return True

    grades = grade_each(50, grade, memory_bytes=MEMORY, budget_s=60)
    assert grades == CodeGrades((None,) * 50, "no sandbox: gone")


@pytest.mark.usefixtures("two_workers")
def test_what_runs_is_told_to_stop_when_the_user_does() -> None:
    begin, end = threading.Event(), threading.Event()

    def grade(index: int, stop: threading.Event) -> bool | None:
        if index == 0:
            assert begin.wait(120)
            raise KeyboardInterrupt
        begin.set()
        if stop.wait(120):
            end.set()
        return True

    with pytest.raises(KeyboardInterrupt):
        grade_each(2, grade, memory_bytes=MEMORY, budget_s=60)
    assert end.is_set()
