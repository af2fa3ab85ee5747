"""Profiling of a run: Nsight Systems, or torch's trace and its longest operations."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="profiling",
    summary="--profile-run: performance runs under vLLM's profiler, and their longest operations",
    options="mlperf_suite.features.profiling.options",
    session="mlperf_suite.features.profiling.session",
    figures={"run.profile": "mlperf_suite.features.profiling.trace.ProfileFigures"},
    report="mlperf_suite.features.profiling.report",
)
