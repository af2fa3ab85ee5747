"""The rules on a log's consistency: with itself, with its seeds and with LoadGen's releases."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="log_consistency",
    summary="the rules on a log's consistency: with itself, its seeds and LoadGen's releases",
    rules=(
        "mlperf_suite.features.log_consistency.log_clock",
        "mlperf_suite.features.log_consistency.seeded",
        "mlperf_suite.features.log_consistency.log_figures",
        "mlperf_suite.features.log_consistency.loadgen_verdict",
        "mlperf_suite.features.log_consistency.provenance",
        "mlperf_suite.features.log_consistency.audit_logs",
    ),
)
