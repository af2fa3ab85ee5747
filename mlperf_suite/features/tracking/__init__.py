"""Keeps results where a team keeps its experiments: MLflow, or any tracker by the same hook."""

from mlperf_suite.feature import Feature

_FOLDER = "mlperf_suite.features.tracking"
FEATURE = Feature(
    name="tracking",
    summary="--track and the command track: results in MLflow, and baselines from there",
    commands={"track": f"{_FOLDER}.command"},
    options=f"{_FOLDER}.options",
    runs=f"{_FOLDER}.tracked_runs",
    plugin=f"{_FOLDER}.plugin",
)
