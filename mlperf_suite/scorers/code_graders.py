"""The graders that benchmarks name, which import what runs programs once there is one to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.scorers.code_grading import CodeGrades
from mlperf_suite.scorers.protocol import Answer


@dataclass(frozen=True, slots=True)
class LiveCodeBench:
    """Tests programs with the problems of LiveCodeBench, a file or folder; None is none at hand."""

    problems: Path | None

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        from mlperf_suite.scorers.live_code_bench import grade_live_code_bench

        return grade_live_code_bench(answers, problems=self.problems)

    def obstacle(self, samples: Sequence[Sample], /) -> str:
        """What these samples' programs lack here: a sandbox, or their problems."""
        from mlperf_suite.scorers.live_code_bench import obstacle_to

        return obstacle_to(samples, problems=self.problems)


@dataclass(frozen=True, slots=True)
class Mbxp:
    """Runs the programs of MBXP with their own tests."""

    def __call__(self, answers: Sequence[Answer], /) -> CodeGrades:
        from mlperf_suite.scorers.mbxp import grade_mbxp

        return grade_mbxp(answers)

    def obstacle(self, samples: Sequence[Sample], /) -> str:
        """What these samples' programs lack here: a sandbox, or their languages."""
        from mlperf_suite.scorers.mbxp import obstacle_to

        return obstacle_to(samples)
