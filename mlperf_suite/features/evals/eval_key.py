"""The key of a task's score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.session.run_kind import BenchmarkAndScenario

EVALS = "evals"
"""The name of the kind of run, and of its results, whose scenario is the task."""


@dataclass(frozen=True, slots=True)
class EvalKey:
    """The score of a task or a group of tasks."""

    task: str
    kind: ClassVar[str] = EVALS
    benchmark: ClassVar[str] = EVALS
    mode: ClassVar[Mode] = "accuracy"

    @property
    def scenario(self) -> str:
        return self.task

    @property
    def benchmark_and_scenario(self) -> BenchmarkAndScenario:
        return self.benchmark, self.task

    def __str__(self) -> str:
        return self.task
