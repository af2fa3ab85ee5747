"""Data sets that are published as pickles, turned into parquet without executing the pickle."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="conversion",
    summary="the command convert: a data set that is published as a pickle, as parquet",
    commands={"convert": "mlperf_suite.features.conversion.command"},
)
