"""The caching audit, the suite's own: one repeated sample is no faster than samples never sent."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="caching_audit",
    summary="the caching audit: one repeated sample is no faster than samples never sent",
    kinds={"caching audit": "mlperf_suite.features.caching_audit.kind"},
    rules=("mlperf_suite.features.caching_audit.caching",),
    figures={"run.caching": "mlperf_suite.features.caching_audit.figures.CachingFigures"},
    report="mlperf_suite.features.caching_audit.report",
    plugin="mlperf_suite.features.caching_audit.plugin",
)
