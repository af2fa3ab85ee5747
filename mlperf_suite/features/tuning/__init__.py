"""The search for the engine's best settings."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="tuning",
    summary="the search for the engine's best settings",
    needs=("endpoints", "peak_search"),
    commands={"tune": "mlperf_suite.features.tuning.command"},
    markers={"tune": "the search for the engine's best settings, and its winner's pairs"},
    plugin="mlperf_suite.features.tuning.plugin",
)
