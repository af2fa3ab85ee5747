"""Names the suite's plugin and its fixtures; no logic of its own."""

pytest_plugins = (
    "mlperf_suite.plugin",
    "fixtures.changes",
    "fixtures.dataset",
    "fixtures.engine",
    "fixtures.logs",
    "fixtures.runs",
)
