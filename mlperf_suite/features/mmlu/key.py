"""The key of the MMLU score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlperf_suite.benchmarks.audits import Mode
from mlperf_suite.session.run_kind import BenchmarkAndScenario


@dataclass(frozen=True, slots=True)
class MmluKey:
    """The MMLU score; a session makes one."""

    kind: ClassVar[str] = "mmlu"
    benchmark: ClassVar[str] = "mmlu"
    scenario: ClassVar[str] = ""
    mode: ClassVar[Mode] = "accuracy"

    @property
    def benchmark_and_scenario(self) -> BenchmarkAndScenario:
        return self.benchmark, self.scenario

    def __str__(self) -> str:
        return "MMLU"


MMLU = MmluKey()
