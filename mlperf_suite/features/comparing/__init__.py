"""Runs beside each other: what differs in their settings, and what changed in their figures."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="comparing",
    summary="the command compare: runs in tables, a plot, a page and files",
    commands={"compare": "mlperf_suite.features.comparing.command"},
    report="mlperf_suite.features.comparing.report",
    plugin="mlperf_suite.features.comparing.plugin",
)
