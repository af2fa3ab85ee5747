"""The search for the highest valid rate of Server and Interactive."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="peak_search",
    summary="--find-peak-qps: the highest rate at which a Server or Interactive run is VALID",
    options="mlperf_suite.features.peak_search.options",
    kinds={"peak search": "mlperf_suite.features.peak_search.kind"},
    figures={"peak": "mlperf_suite.features.peak_search.figures.PeakFigures"},
    report="mlperf_suite.features.peak_search.report",
    plugin="mlperf_suite.features.peak_search.plugin",
)
