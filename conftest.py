"""Names the fixture plugins; no logic of its own."""

pytest_plugins = (
    "mlperf_suite.plugin.options",
    "mlperf_suite.plugin.runs",
    "mlperf_suite.plugin.workers",
    "mlperf_suite.plugin.mmlu_tests",
    "mlperf_suite.plugin.regression_tests",
    "mlperf_suite.plugin.logs",
    "mlperf_suite.plugin.reporting",
    "mlperf_suite.plugin.ci",
    "mlperf_suite.plugin.secret_keeping",
)
