"""The independent runs of several nodes as one table."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="aggregate",
    summary="the independent runs of several nodes as one table",
    commands={"aggregate": "mlperf_suite.features.aggregate.command"},
)
