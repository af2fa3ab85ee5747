"""Benchmarks whose answers are graded by programs, and the sandbox for programs in answers."""

from mlperf_suite.feature import Feature

_BENCHMARKS = "mlperf_suite.features.code_grading.benchmarks"
FEATURE = Feature(
    name="code_grading",
    summary="deepseek-r1, gpt-oss-120b and mixtral-8x7b: answers with programs, run in a sandbox",
    options="mlperf_suite.features.code_grading.options",
    benchmarks=tuple(
        f"{_BENCHMARKS}.{name}" for name in ("deepseek_r1", "gpt_oss_120b", "mixtral_8x7b")
    ),
)
