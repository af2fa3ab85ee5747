"""Judging of a finished submission tree of MLPerf Inference: its files, its systems, its power."""

from mlperf_suite.feature import Feature

_FOLDER = "mlperf_suite.features.submission_check"
FEATURE = Feature(
    name="submission_check",
    summary="--logs of a submission tree: the rules on its files, systems and power measurements",
    rules=(
        f"{_FOLDER}.power_rules",
        f"{_FOLDER}.submission_rules",
        f"{_FOLDER}.upload_rules",
        f"{_FOLDER}.retrieval_rules",
    ),
    judge=f"{_FOLDER}.submissions",
)
