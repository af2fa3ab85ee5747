"""Accelerators: which there are, whether they compute, and their energy counters."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="accelerators",
    summary="the machine's accelerators by NVML, AMD SMI or vLLM's platform, and their counters",
    accelerators="mlperf_suite.features.accelerators.devices",
)
