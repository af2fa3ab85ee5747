"""Code graders: the protocol, and what running the programs of many answers in sandboxes takes.

A code grader runs the programs in answers and reports which pass. A scorer gets its grader as a
field, so that it is independent of languages, sandboxes and tests.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mlperf_suite.features.code_grading.sandbox.box import (
    Limits,
    ProgramOutcome,
    Sandbox,
    SandboxError,
)
from mlperf_suite.scorers.scorer import Answer

_PACKAGES = ("numpy",)
"""What programs may import besides the standard library, if it is installed here."""
_PACKAGES_WITHIN = "/opt/packages"
_PYTHON_PROGRAM = Path(__file__).with_name("python_program.py")


@dataclass(frozen=True, slots=True)
class CodeGrades:
    """`passed`: per answer, in the order given; None if that answer could not be judged.

    `not_judged`: why the figure as a whole could not be judged ("no sandbox"), in a few words.
    """

    passed: tuple[bool | None, ...]
    not_judged: str = ""


class CodeGrader(Protocol):
    """Runs the programs in answers.

    The scorer defines the text of an answer: the model's whole answer (MBXP), or the program alone
    (LiveCodeBench). A grader that can report before a run what it lacks has a method `obstacle`
    that takes the samples (`obstacle_of`).
    """

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        """Grade the answers, at least one. Must not raise because of model output."""


def run_programs(code: CodeGrader, answers: Sequence[Answer]) -> CodeGrades:
    """The grades of these answers, or the reason why the figure cannot be computed.

    A figure over only the answers that could be judged would not be comparable, so one unknown
    grade leaves it out. Raises ValueError if the grader returns a wrong number of grades.
    """
    if not answers:
        return CodeGrades(())
    grades = code(answers)
    if grades.not_judged:
        return CodeGrades((None,) * len(answers), grades.not_judged)
    if len(grades.passed) != len(answers):
        raise ValueError(f"{len(grades.passed)} grades for {len(answers)} answers")
    unknown = sum(passed is None for passed in grades.passed)
    if unknown:
        why = f"{unknown:,} of {len(answers):,} programs could not be judged"
        return CodeGrades(grades.passed, why)
    return grades


def run_python(
    sandbox: Sandbox,
    program: bytes,
    order: Mapping[str, object],
    limits: Limits,
    *,
    word: bytes = b"",
    watch: Callable[[bytes], bool] | None = None,
    stop: threading.Event | None = None,
) -> ProgramOutcome:
    """Run a program with `python_program.py` as `order` says; results are its standard output."""
    files = {
        "answer.py": program,
        "order.json": json.dumps(order).encode(),
        "run.py": _PYTHON_PROGRAM.read_bytes(),
    }
    return sandbox.run(
        [sandbox.python, "-s", "run.py"],
        files,
        word,
        limits,
        readable=_packages(),
        environment={"PYTHONPATH": _PACKAGES_WITHIN},
        watch=watch,
        stop=stop,
    )


@functools.cache
def _packages() -> dict[Path, str]:
    """The folders of the packages that programs may import, with their paths in the sandbox.

    A wheel keeps the libraries that a package links to in a folder <package>.libs beside it.
    """
    folders: dict[Path, str] = {}
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        for place in (spec and spec.submodule_search_locations) or ():
            for folder in (Path(place), Path(f"{place}.libs")):
                if folder.is_dir():
                    folders[folder] = f"{_PACKAGES_WITHIN}/{folder.name}"
    return folders


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
    errors: list[str] = []
    late: list[int] = []

    def grade_in_time(index: int) -> bool | None:
        if stop.is_set() or time.monotonic() > deadline:
            late.append(index)
            return None
        try:
            return grade(index, stop)
        except SandboxError as error:
            errors.append(str(error))
            stop.set()
            return None

    with ThreadPoolExecutor(worker_count(memory_bytes), "sandbox") as pool:
        try:
            passed = tuple(pool.map(grade_in_time, range(count)))
        except BaseException:
            # Ctrl-C: running programs are killed, so that leaving the pool does not wait for them.
            stop.set()
            raise
    if errors:
        return CodeGrades((None,) * count, errors[0])
    if late:
        reason = f"{budget_s:g} s were over after {count - len(late)} of {count} programs"
        return CodeGrades(passed, reason)
    return CodeGrades(passed)
