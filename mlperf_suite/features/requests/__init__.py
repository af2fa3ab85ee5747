"""Every request of a performance run: requests.csv, and the plots of a run."""

from mlperf_suite.feature import Feature

_FOLDER = "mlperf_suite.features.requests"
FEATURE = Feature(
    name="requests",
    summary="requests.csv of each performance run, and its plots",
    logs=("requests.csv",),
    report=f"{_FOLDER}.report",
    session=f"{_FOLDER}.session",
)
