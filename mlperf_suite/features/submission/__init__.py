"""The tree that MLPerf Inference takes, and the package of MLPerf Endpoints."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="submission",
    needs=("submission_check",),
    summary="the tree that MLPerf Inference takes, and the package of MLPerf Endpoints",
    commands={"submission": "mlperf_suite.features.submission.command"},
)
