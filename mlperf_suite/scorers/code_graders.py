"""The code graders that benchmarks name; they import the sandbox code only when used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.scorers.code_grading import CodeGrades
from mlperf_suite.scorers.protocol import Answer


@dataclass(frozen=True, slots=True)
class LiveCodeBench:
    """Tests programs against LiveCodeBench problems in a file or folder; None if there are none."""

    problems: Path | None

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        from mlperf_suite.scorers.live_code_bench import grade_live_code_bench

        return grade_live_code_bench(answers, problems=self.problems)

    def obstacle(self, samples: Sequence[Sample], /) -> str:
        """Why these samples' programs cannot be graded here: no sandbox, or missing problems."""
        from mlperf_suite.scorers.live_code_bench import obstacle_to

        return obstacle_to(samples, problems=self.problems)


@dataclass(frozen=True, slots=True)
class Mbxp:
    """Runs MBXP programs with their own tests."""

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        from mlperf_suite.scorers.mbxp import grade_mbxp

        return grade_mbxp(answers)

    def obstacle(self, samples: Sequence[Sample], /) -> str:
        """Why these samples' programs cannot be graded here: no sandbox, or missing languages."""
        from mlperf_suite.scorers.mbxp import obstacle_to

        return obstacle_to(samples)
