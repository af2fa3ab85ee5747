"""MLPerf Endpoints and the official HTTP client: its runs, its curves, its packages."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="endpoints",
    summary="--client, --series: the curve of MLPerf Endpoints, MLCommons' official HTTP client",
    needs=("chats", "servers", "submission_check"),
    benchmarks=("mlperf_suite.features.endpoints.endpoints_agents",),
    markers={"curve": "the curve of tokens/s over tokens/s per user, at fixed concurrencies"},
    options="mlperf_suite.features.endpoints.options",
    kinds={
        "official client": "mlperf_suite.features.endpoints.official_client_kind",
        "curve": "mlperf_suite.features.endpoints.curve.curve_kind",
    },
    rules=(
        "mlperf_suite.features.endpoints.rules.official_client_rules",
        "mlperf_suite.features.endpoints.rules.package_rules",
        "mlperf_suite.features.endpoints.rules.agentic_rules",
    ),
    logs=("result_summary.json", "accuracy_results.json"),
    figures={"curve": "mlperf_suite.features.endpoints.curve.curve_figures.CurveFigures"},
    report="mlperf_suite.features.endpoints.curve.curve_report",
    gate="mlperf_suite.features.endpoints.curve.curve_area",
    judge="mlperf_suite.features.endpoints.judging.packages",
    plugin="mlperf_suite.features.endpoints.plugin",
)
