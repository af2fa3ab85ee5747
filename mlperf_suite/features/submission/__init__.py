"""The tree that MLPerf Inference takes, and the package of MLPerf Endpoints."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="submission",
    summary="the tree that MLPerf Inference takes, and the package of MLPerf Endpoints",
    needs=("endpoints", "servers", "submission_check"),
    commands={"submission": "mlperf_suite.features.submission.command"},
)
